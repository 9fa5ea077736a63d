DELETE FROM subscriptions
WHERE place = ?
