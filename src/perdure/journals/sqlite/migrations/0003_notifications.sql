-- Other systems that are told of approvals, and what they said: the rules stand in perdure/archive.py.

CREATE TABLE notifications (
    approval_id  TEXT PRIMARY KEY REFERENCES approvals (approval_id) ON DELETE CASCADE,
    tenant       TEXT NOT NULL,
    state        TEXT NOT NULL,
    attempts     INTEGER NOT NULL,
    created_at   REAL NOT NULL,
    next_at      REAL NOT NULL,
    delivered_at REAL,
    last_error   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX notifications_due ON notifications (next_at) WHERE state = 'waiting';

-- With the approval, in its transaction. The bytes are WANTS_NOTIFICATION: {"notify":{
CREATE TRIGGER approvals_are_told AFTER INSERT ON approvals
WHEN new.state = 'pending' AND substr(new.body, 1, 11) = X'7B226E6F74696679223A7B'
BEGIN
    INSERT INTO notifications (approval_id, tenant, state, attempts, created_at, next_at, last_error)
    VALUES (new.approval_id, new.tenant, 'waiting', 0, new.requested_at, new.requested_at, X'');
END;

CREATE TABLE callbacks (
    callback_hash BLOB PRIMARY KEY,
    tenant        TEXT NOT NULL,
    digest        BLOB NOT NULL,
    received_at   REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX callbacks_by_time ON callbacks (received_at);
