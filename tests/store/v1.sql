-- A database as the first schema wrote it, typed by hand. Never changed: whatever the schema becomes, this opens.
PRAGMA application_id = 1717662317;
PRAGMA user_version = 1;
CREATE TABLE run (id TEXT PRIMARY KEY, campaign TEXT NOT NULL, campaign_text TEXT NOT NULL, seed INTEGER NOT NULL,
  started REAL NOT NULL, ended REAL, status TEXT NOT NULL, note TEXT NOT NULL, host TEXT NOT NULL,
  version TEXT NOT NULL, settings TEXT NOT NULL) STRICT;
CREATE TABLE boot (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL REFERENCES run (id), board TEXT NOT NULL,
  boot_index INTEGER NOT NULL, block INTEGER NOT NULL, variant TEXT NOT NULL, attempt INTEGER NOT NULL,
  status TEXT NOT NULL, reason TEXT NOT NULL, started REAL NOT NULL, ended REAL NOT NULL, facts TEXT NOT NULL,
  flash TEXT NOT NULL, log_path TEXT NOT NULL, console_bytes TEXT NOT NULL,
  UNIQUE (run_id, board, boot_index, attempt)) STRICT;
CREATE TABLE event (boot_id INTEGER NOT NULL REFERENCES boot (id), seq INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (boot_id, seq)) STRICT, WITHOUT ROWID;
CREATE TABLE trial (id INTEGER PRIMARY KEY, boot_id INTEGER NOT NULL REFERENCES boot (id), workload TEXT NOT NULL,
  rep INTEGER NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL, command TEXT NOT NULL, started REAL NOT NULL,
  seconds REAL NOT NULL, facts TEXT NOT NULL, UNIQUE (boot_id, workload, rep)) STRICT;
CREATE INDEX trial_in_order ON trial (boot_id);
CREATE TABLE sample (trial_id INTEGER NOT NULL REFERENCES trial (id), metric TEXT NOT NULL, rw TEXT NOT NULL,
  value REAL NOT NULL, PRIMARY KEY (trial_id, metric, rw)) STRICT, WITHOUT ROWID;
CREATE TABLE raw (id INTEGER PRIMARY KEY, trial_id INTEGER NOT NULL REFERENCES trial (id), kind TEXT NOT NULL,
  size INTEGER NOT NULL, zlib BLOB NOT NULL, UNIQUE (trial_id, kind)) STRICT;
CREATE TABLE outbox (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, run_id TEXT REFERENCES run (id),
  boot_id INTEGER REFERENCES boot (id), created REAL NOT NULL, sent REAL, refused TEXT NOT NULL DEFAULT '',
  body BLOB) STRICT;
CREATE INDEX outbox_waiting ON outbox (id) WHERE sent IS NULL AND refused = '';
INSERT INTO run VALUES ('20251224-0001', 'readahead', 'name: readahead', 7, 1766534400.0, 1766534900.5, 'done', '',
  'lab1', '0.1.0', '{"baseline": "ra128"}');
INSERT INTO boot VALUES (1, '20251224-0001', 'rk3568', 0, 0, 'ra128', 0, 'ok', '', 1766534401.0, 1766534441.0,
  '{"banner": "Linux version 6.1"}', '{"method": "netboot"}', 'logs/a.log', '{"boot": 20000}');
INSERT INTO event VALUES (1, 0, '{"kind": "new-card"}');
INSERT INTO trial VALUES (1, 1, 'dd-read', 0, 'ok', '', 'dd if=/dev/mmcblk0p2', 1766534420.0, 5.0, '{"rc": 0}');
INSERT INTO sample VALUES (1, 'bw_bytes', 'read', 178657793.75);
INSERT INTO raw VALUES (1, 1, 'out', 5, x'789ccb48cdc9c90700062c0215');
INSERT INTO outbox VALUES (1, 'boot', '20251224-0001', 1, 1766534442.0, NULL, '', NULL);
