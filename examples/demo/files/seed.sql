CREATE TABLE incidents (
  id INTEGER PRIMARY KEY,
  service TEXT NOT NULL,
  day DATE NOT NULL,
  minutes INTEGER NOT NULL,
  summary TEXT NOT NULL
);
INSERT INTO incidents (service, day, minutes, summary) VALUES
  ('web', '2026-08-03', 12, 'certificate renewed late'),
  ('checkout', '2026-08-19', 47, 'card provider timed out'),
  ('checkout', '2026-09-27', 21, 'database failover'),
  ('mailer', '2026-10-11', 180, 'queue full over night'),
  ('checkout', '2026-11-02', 9, 'bad deploy, rolled back');

CREATE TABLE changes (
  id INTEGER PRIMARY KEY,
  service TEXT NOT NULL,
  path TEXT NOT NULL,
  before TEXT,
  after TEXT,
  reason TEXT NOT NULL
);
