package store

import "github.com/redis/go-redis/v9"

// Every script takes as KEYS the row and the indexes expiry, last_activity,
// due and creating, unless its comment says otherwise. ARGV[1] is the id. A
// score of '' means: no entry. The lists of a session follow as further KEYS;
// they hold another member than the id.
//
// The first write of a script is the one that a full memory refuses (SET): a
// server checks for memory until a script has written, so a refused script
// has written nothing. Removing needs no memory.
//
// go-redis runs a script a second time when the answer of the first was lost;
// each comment says what the second run finds.

// luaPut sets or removes one index entry, or one of each of a row of lists.
const luaPut = `
local function put(key, score)
  if score == '' then redis.call('ZREM', key, ARGV[1])
  else redis.call('ZADD', key, score, ARGV[1]) end
end
local function list(first, last, command, ...)
  for i = first, last do redis.call(command, KEYS[i], ...) end
end
`

// createScript writes the row ARGV[2] and its entries, scores ARGV[3..6] in
// the order of KEYS[2..5], and the member ARGV[7] into its lists KEYS[6..], if
// there is no row. Returns 1; 0 if there is
// another row. A second run finds its own row, which no other can equal since
// it holds the token of its reservation: 1.
var createScript = redis.NewScript(luaPut + `
local row = redis.call('GET', KEYS[1])
if row == ARGV[2] then return 1 end
if row then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
for i = 2, 5 do put(KEYS[i], ARGV[i + 1]) end
list(6, #KEYS, 'ZADD', 0, ARGV[7])
return 1
`)

// readScript returns what a decision rests on: {row, last activity, {seconds,
// microseconds}}, each of the first two false if absent. KEYS: row and
// last_activity. It writes nothing.
var readScript = redis.NewScript(`
return {redis.call('GET', KEYS[1]), redis.call('ZSCORE', KEYS[2], ARGV[1]), redis.call('TIME')}
`)

// updateScript replaces the row ARGV[2] by ARGV[3] and sets the entries of
// expiry, due and creating to ARGV[4..6]. ARGV[7], unless ”, becomes the last
// activity. With ARGV[8], unless ”, it refuses if the last activity is newer.
// The member ARGV[9] leaves the first ARGV[11] of the lists KEYS[6..], and the
// member ARGV[10] joins the others.
// Returns 1; 0 if the row is another one; -1 if there is none; -2 if refused.
// A second run finds its own row and returns 0; the change, tried again on
// that row, then says that it is done.
var updateScript = redis.NewScript(luaPut + `
local row = redis.call('GET', KEYS[1])
if not row then return -1 end
if row ~= ARGV[2] then return 0 end
if ARGV[8] ~= '' then
  local last = redis.call('ZSCORE', KEYS[3], ARGV[1])
  if last and tonumber(last) > tonumber(ARGV[8]) then return -2 end
end
redis.call('SET', KEYS[1], ARGV[3])
put(KEYS[2], ARGV[4])
put(KEYS[4], ARGV[5])
put(KEYS[5], ARGV[6])
if ARGV[7] ~= '' then put(KEYS[3], ARGV[7]) end
local left = 5 + tonumber(ARGV[11])
list(6, left, 'ZREM', ARGV[9])
list(left + 1, #KEYS, 'ZADD', 0, ARGV[10])
return 1
`)

// removeScript removes the row ARGV[2] and its entries, also the member ARGV[5]
// of the lists KEYS[7..], and keeps ARGV[3] in KEYS[6] for ARGV[4] seconds in its
// place. Returns 1; 0 if the row is another one; -1 if there is none, in which
// case entries that were left behind are gone now. What is kept comes last: it
// is less than what went, and a full memory must not refuse it. A second run
// finds no row and leaves what the first one kept: -1.
var removeScript = redis.NewScript(luaPut + `
local row = redis.call('GET', KEYS[1])
if row and row ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
for i = 2, 5 do redis.call('ZREM', KEYS[i], ARGV[1]) end
list(7, #KEYS, 'ZREM', ARGV[5])
if not row then return -1 end
redis.call('SET', KEYS[6], ARGV[3], 'EX', ARGV[4])
return 1
`)

// keepScript sets the last activity to now if the row still is ARGV[2]. KEYS:
// row and last_activity. Returns 1; 0 if the row is another one; -1 if there is
// none. A second run does the same again.
var keepScript = redis.NewScript(`
local row = redis.call('GET', KEYS[1])
if not row then return -1 end
if row ~= ARGV[2] then return 0 end
redis.call('ZADD', KEYS[2], 'GT', redis.call('TIME')[1], ARGV[1])
return 1
`)

// healScript adds the entries that are missing, scores ARGV[3..6] in the order
// of KEYS[2..5], and removes those that must not be, if the row still is
// ARGV[2] (”: absent). An entry that exists keeps its score. Returns the
// number of entries changed. A second run finds nothing left to do: 0.
var healScript = redis.NewScript(`
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return 0 end
local healed = 0
for i = 2, 5 do
  local score = ARGV[i + 1]
  if score == '' then healed = healed + redis.call('ZREM', KEYS[i], ARGV[1])
  else healed = healed + redis.call('ZADD', KEYS[i], 'NX', score, ARGV[1]) end
end
return healed
`)

// activityScript returns the last activity, or false. One that lies more than
// ARGV[2] seconds ahead is set to now. KEYS: last_activity. A second run finds
// it set.
var activityScript = redis.NewScript(`
local last = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not last then return false end
local now = redis.call('TIME')[1]
if tonumber(last) > tonumber(now) + tonumber(ARGV[2]) then
  redis.call('ZADD', KEYS[1], 'XX', now, ARGV[1])
  return now
end
return last
`)

// claimScript moves a member whose time has come to the score ARGV[2]. KEYS:
// due. Returns 1; 0 if its time has not come, or it is no member. A second run
// finds it moved and returns 0: whoever lost the first answer has not claimed
// it, and it comes up again.
var claimScript = redis.NewScript(`
local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not due or tonumber(due) > tonumber(redis.call('TIME')[1]) then return 0 end
redis.call('ZADD', KEYS[1], 'XX', ARGV[2], ARGV[1])
return 1
`)

// dueScript returns up to ARGV[1] members whose time has come, earliest first,
// each followed by its score. KEYS: due. It writes nothing.
var dueScript = redis.NewScript(`
local now = redis.call('TIME')[1]
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
`)
