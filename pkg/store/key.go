package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/pkg/session"
)

// keyTaken is what a script returns when a key names another session.
const keyTaken = -3

// What a change of a session does to its key.
const (
	takeKey = "take"
	freeKey = "free"
	keepKey = "keep"
)

// script is one that changes a session. Its other form is for one whose key
// changes in the same moment, so that key and row never disagree.
type script struct {
	*redis.Script
	keyed *redis.Script
}

// luaKeyed is around the text of a script, which sees nothing of it. The last of
// KEYS is the record of the key, the last of ARGV what becomes of it and its
// value, which no other record has since it holds the session's id. It returns
// what the script inside returns, and changes the record if that is 1:
//
//	take  the record is written. Returns -3, without any change, if it names
//	      another session; 0 if it names this one and there is no row, which
//	      then has ended
//	free  the record goes
//	keep  the record goes in so many seconds
//
// The last two leave a record that names another session alone. A second run
// finds what the script inside finds, and its own record.
var luaKeyed = `
local name, verb, value = KEYS[#KEYS], ARGV[#ARGV - 1], ARGV[#ARGV]
local keys, argv = {}, {}
for i = 1, #KEYS - 1 do keys[i] = KEYS[i] end
for i = 1, #ARGV - 2 do argv[i] = ARGV[i] end
local KEYS, ARGV = keys, argv
local function change()
%s
end
local have = redis.call('GET', name)
if verb == 'take' and have then
  if have ~= value then return -3 end
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
end
local code = change()
if code ~= 1 then return code end
if verb == 'take' then redis.call('SET', name, value)
elseif have ~= value then return code
elseif verb == 'free' then redis.call('DEL', name)
else redis.call('EXPIRE', name, ` + strconv.Itoa(int(session.KeyLife/time.Second)) + `) end
return code
`

func newScript(text string) script {
	return script{Script: redis.NewScript(text), keyed: redis.NewScript(fmt.Sprintf(luaKeyed, text))}
}

// keyChange is what a change of a session does to its key. Zero: nothing.
type keyChange struct{ verb, name, value string }

func changeKey(s session.Session, verb string) keyChange {
	if s.Key == (session.RetryKey{}) {
		return keyChange{}
	}
	return keyChange{verb: verb, name: s.Key.Name, value: s.ID + " " + s.Key.Body}
}

// change runs a script on a session, whose row is the first of the keys.
func (r *Redis) change(ctx context.Context, s script, keys []string, key keyChange, args ...any) (int, error) {
	if key == (keyChange{}) {
		return s.Run(ctx, r.client, keys, args...).Int()
	}
	keys = append(keys, r.keys.idempotency(key.name))
	return s.keyed.Run(ctx, r.client, keys, append(args, key.verb, key.value)...).Int()
}

// keyOnRemoval is what becomes of the key of a row that is removed: that of a
// create that failed is free, unless it was freed before.
func keyOnRemoval(s session.Session) keyChange {
	if s.Committed() {
		return changeKey(s, keepKey)
	}
	return changeKey(s, freeKey)
}

// KeyHolder is the session that a key names, by the key's name. ErrNotFound:
// the key is free. A session that is named and has no row has ended within the
// last hour.
func (r *Redis) KeyHolder(ctx context.Context, name string) (session.KeyHolder, error) {
	var holder session.KeyHolder
	err := r.do(ctx, "reading an idempotency key", func(ctx context.Context) error {
		record, err := r.client.Get(ctx, r.keys.idempotency(name)).Result()
		if errors.Is(err, redis.Nil) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		holder, err = parseHolder(record)
		return err
	})
	return holder, err
}

func parseHolder(record string) (session.KeyHolder, error) {
	if len(record) <= session.IDLength+1 || record[session.IDLength] != ' ' || !session.ValidID(record[:session.IDLength]) {
		return session.KeyHolder{}, fmt.Errorf("record of an idempotency key names no session: %w", ErrCorrupt)
	}
	return session.KeyHolder{ID: record[:session.IDLength], Body: record[session.IDLength+1:]}, nil
}
