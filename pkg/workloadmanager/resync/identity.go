package resync

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Identify returns the id that every object of this installation bears. It is
// kept on both sides: the record decides, so that a store that was emptied or
// replaced does not make another installation out of this one, and the store
// is compared with it in each pass. The first call ever makes it, or takes it
// over from the store of a release that kept it there alone.
func Identify(ctx context.Context, store Identity, record Record) (string, error) {
	for {
		id, err := identify(ctx, store, record)
		// Another replica was faster: its id counts.
		if !errors.Is(err, sandbox.ErrExists) && !errors.Is(err, sandbox.ErrConflict) {
			return id, err
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
}

func identify(ctx context.Context, store Identity, record Record) (string, error) {
	note, err := record.Get(ctx)
	write := record.Update
	if errors.Is(err, sandbox.ErrNotFound) {
		write, err = record.Create, nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the installation's id: %w", err)
	}
	if id := note.Data[dataInstallation]; session.ValidID(id) {
		return id, nil
	}
	id, err := store.Installation(ctx)
	if err != nil {
		return "", err
	}
	made := !session.ValidID(id)
	if made {
		id = uuid.NewString()
	}
	if _, err := write(ctx, withInstallation(note, id)); err != nil {
		return "", fmt.Errorf("recording the installation's id: %w", err)
	}
	if made {
		// Should this fail, the first pass makes it good: there is no object
		// of ours yet.
		if err := store.SetInstallation(ctx, id); err != nil {
			return "", err
		}
	}
	return id, nil
}

func withInstallation(note sandbox.Note, id string) sandbox.Note {
	note.Data = maps.Clone(note.Data)
	if note.Data == nil {
		note.Data = map[string]string{}
	}
	note.Data[dataInstallation] = id
	return note
}

// readIdentity reads the note, and whether the store is the one that this
// installation knew.
func (p *pass) readIdentity(ctx context.Context) error {
	note, err := p.record.Get(ctx)
	if errors.Is(err, sandbox.ErrNotFound) {
		// Somebody deleted it: the id that our objects bear is known here.
		note, err = p.record.Create(ctx, withInstallation(sandbox.Note{}, p.options.Installation))
	}
	if err != nil {
		return fmt.Errorf("reading the installation's record: %w", err)
	}
	if id := note.Data[dataInstallation]; id != p.options.Installation {
		return fmt.Errorf("the record says %q, this process %q: %w", id, p.options.Installation, errOtherInstallation)
	}
	p.note, p.held = note, brakeOf(note)
	if p.stored, err = p.store.Installation(ctx); err != nil {
		return fmt.Errorf("reading the id of the store: %w", err)
	}
	switch p.stored {
	case p.options.Installation:
		p.reason = ReasonMass
	case "":
		p.reason = ReasonStoreEmpty
	default:
		p.reason = ReasonStoreChanged
	}
	return nil
}

// known reports whether the store is this installation's.
func (p *pass) known() bool { return p.stored == p.options.Installation }
