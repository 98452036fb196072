package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/pkg/session"
)

// Scan returns a page of rows, about Options.Page of them, and the cursor of
// the next page; the cursor 0 begins, and ends. It reads what there is while it
// runs: a row that is there all the time is returned, perhaps more than once;
// one that comes or goes meanwhile, perhaps.
func (r *Redis) Scan(ctx context.Context, cursor uint64) (rows []session.Row, next uint64, err error) {
	err = r.do(ctx, "scanning rows", func(ctx context.Context) error {
		rows = nil
		var page []string
		page, next, err = r.client.Scan(ctx, cursor, r.keys.rowPrefix+"*", int64(r.options.Page)).Result()
		if err != nil {
			return err
		}
		rows, err = r.heads(ctx, page)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return rows, next, nil
}

// heads reads the rows of a page of keys, those that are rows.
func (r *Redis) heads(ctx context.Context, page []string) ([]session.Row, error) {
	var ids []string
	for _, key := range page {
		if id := strings.TrimPrefix(key, r.keys.rowPrefix); session.ValidID(id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	answers, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, id := range ids {
			p.Get(ctx, r.keys.row(id))
		}
		return nil
	})
	if err != nil && !isAnswer(err) {
		return nil, err
	}
	if err := firstFailure(answers); err != nil {
		return nil, err
	}
	rows := make([]session.Row, 0, len(ids))
	for i, answer := range answers {
		get, ok := answer.(*redis.StringCmd)
		if !ok {
			return nil, fmt.Errorf("the store's client answers GET with %T", answer)
		}
		text, err := get.Bytes()
		if errors.Is(err, redis.Nil) {
			continue // removed meanwhile
		}
		row := session.Row{ID: ids[i], Unreadable: true}
		if err == nil {
			row = head(ids[i], text)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// head reads the few fields of a row that a scan tells, which takes a fraction
// of the time of a whole one.
func head(id string, text []byte) session.Row {
	var fields struct {
		Kind      string        `json:"kind"`
		SandboxID string        `json:"sandboxId"`
		Namespace string        `json:"sandboxNamespace"`
		Name      string        `json:"name"`
		UID       string        `json:"objectUid"`
		SessionID string        `json:"sessionId"`
		State     session.State `json:"status"`
		CreatedAt instant       `json:"createdAt"`
	}
	err := json.Unmarshal(text, &fields)
	if err != nil || (fields.SessionID != "" && fields.SessionID != id) {
		return session.Row{ID: id, Unreadable: true}
	}
	s, err := session.Session{
		ID: id, State: fields.State, CreatedAt: time.Time(fields.CreatedAt),
		Object:  session.ObjectRef{Kind: fields.Kind, Namespace: fields.Namespace, Name: fields.Name, UID: fields.UID},
		Sandbox: session.SandboxRef{UID: fields.SandboxID},
	}.Canonical()
	if err != nil {
		return session.Row{ID: id, Unreadable: true}
	}
	return session.RowOf(s)
}
