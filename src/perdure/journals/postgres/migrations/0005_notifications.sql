-- Other systems that are told of approvals, and what they said: the rules stand in perdure/archive.py.

CREATE TABLE perdure.notifications (
    approval_id  text COLLATE "C" PRIMARY KEY REFERENCES perdure.approvals (approval_id) ON DELETE CASCADE,
    tenant       text COLLATE "C" NOT NULL,
    state        text COLLATE "C" NOT NULL,
    attempts     integer NOT NULL,
    created_at   double precision NOT NULL,
    next_at      double precision NOT NULL,
    delivered_at double precision,
    last_error   bytea NOT NULL
);

CREATE INDEX notifications_due ON perdure.notifications (next_at) WHERE state = 'waiting';

CREATE FUNCTION perdure.tell_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.notifications (approval_id, tenant, state, attempts, created_at, next_at, last_error)
    VALUES (NEW.approval_id, NEW.tenant, 'waiting', 0, NEW.requested_at, NEW.requested_at, '');
    RETURN NULL;
END $$;

-- With the approval, in its transaction. The bytes are WANTS_NOTIFICATION: {"notify":{
CREATE TRIGGER approvals_are_told AFTER INSERT ON perdure.approvals FOR EACH ROW
WHEN (NEW.state = 'pending' AND substring(NEW.body FROM 1 FOR 11) = '\x7b226e6f74696679223a7b'::bytea)
EXECUTE FUNCTION perdure.tell_approval();

CREATE TABLE perdure.callbacks (
    callback_hash bytea PRIMARY KEY,
    tenant        text COLLATE "C" NOT NULL,
    digest        bytea NOT NULL,
    received_at   double precision NOT NULL
);

CREATE INDEX callbacks_by_time ON perdure.callbacks (received_at);
