package resync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

// AnnotationConfirm on the ConfigMap, with the brake's token as its value, is an
// operator's leave to remove what the brake holds, once.
const AnnotationConfirm = "runtime.agentcube.io/confirm-resync"

// Why nothing is removed.
const (
	// ReasonMass: a pass would remove more than a tenth, and more than a few.
	ReasonMass = "mass-removal"
	// ReasonStoreEmpty: the store belongs to nobody; it was emptied, or
	// replaced by an empty one.
	ReasonStoreEmpty = "store-without-id"
	// ReasonStoreChanged: the store belongs to another installation.
	ReasonStoreChanged = "store-of-another"
)

// Data of the ConfigMap.
const (
	dataInstallation = "installation"
	brakePrefix      = "brake-"
	dataReason       = brakePrefix + "reason"
	dataStore        = brakePrefix + "store"
	dataRows         = brakePrefix + "rows"
	dataPurge        = brakePrefix + "rows-to-remove"
	dataObjects      = brakePrefix + "objects"
	dataSweep        = brakePrefix + "objects-to-delete"
	dataSince        = brakePrefix + "since"
	dataToken        = brakePrefix + "token"
	dataConfirm      = brakePrefix + "confirm-with"
)

const (
	// fewRemovals are never taken for a mass, however few rows there are.
	fewRemovals = 20
	// massFraction: more than one in so many is a mass.
	massFraction = 10
)

// most is how many of a total may go without anybody's leave.
func most(total int) int { return max(fewRemovals, total/massFraction) }

// Brake is why nothing is removed, and what would be. Its counts are those
// that an operator sees and confirms. It is an error to whoever asks whether
// all is well.
type Brake struct {
	Reason string
	// Store is the id in the store, of ReasonStoreChanged.
	Store string
	// Purge of so many Rows, and Sweep of so many Objects, would go.
	Rows, Purge, Objects, Sweep int
	Since                       time.Time
	// Token is another one whenever there is something else to confirm.
	Token string
}

// Error implements error.
func (b *Brake) Error() string {
	return fmt.Sprintf("the resync removes nothing (%s): it would remove %d of %d rows and delete %d of %d objects",
		b.Reason, b.Purge, b.Rows, b.Sweep, b.Objects)
}

func (b *Brake) confirmedBy(note sandbox.Note) bool {
	return b != nil && b.Token != "" && note.Annotations[AnnotationConfirm] == b.Token
}

// covers reports whether whoever confirmed b has seen what next would do, but
// for what may go without leave.
func (b *Brake) covers(next Brake) bool {
	return b != nil && b.Reason == next.Reason && b.Store == next.Store &&
		next.Purge <= b.Purge+most(b.Rows) && next.Sweep <= b.Sweep+most(b.Objects)
}

// brakeOf reads the brake in a note; nil: none.
func brakeOf(note sandbox.Note) *Brake {
	if note.Data[dataReason] == "" {
		return nil
	}
	number := func(key string) int {
		n, _ := strconv.Atoi(note.Data[key]) // what was spoiled by hand allows nothing
		return max(n, 0)
	}
	since, _ := time.Parse(time.RFC3339, note.Data[dataSince])
	return &Brake{
		Reason: note.Data[dataReason], Store: note.Data[dataStore],
		Rows: number(dataRows), Purge: number(dataPurge), Objects: number(dataObjects), Sweep: number(dataSweep),
		Since: since, Token: note.Data[dataToken],
	}
}

// withBrake returns the note with that brake, or, nil, without one. An answer
// to another brake goes.
func withBrake(note sandbox.Note, b *Brake, command string) sandbox.Note {
	data := maps.Clone(note.Data)
	maps.DeleteFunc(data, func(key, _ string) bool { return strings.HasPrefix(key, brakePrefix) })
	if b != nil {
		maps.Copy(data, map[string]string{
			dataReason: b.Reason,
			dataRows:   strconv.Itoa(b.Rows), dataPurge: strconv.Itoa(b.Purge),
			dataObjects: strconv.Itoa(b.Objects), dataSweep: strconv.Itoa(b.Sweep),
			dataSince: b.Since.UTC().Format(time.RFC3339), dataToken: b.Token, dataConfirm: command,
		})
		if b.Store != "" {
			data[dataStore] = b.Store
		}
	}
	note.Data = data
	if !b.confirmedBy(note) {
		note.Annotations = maps.Clone(note.Annotations)
		delete(note.Annotations, AnnotationConfirm)
	}
	return note
}

// command is the line that confirms a token.
func (r *Resyncer) command(token string) string {
	return fmt.Sprintf("kubectl -n %s annotate --overwrite configmap %s %s=%s",
		r.options.Namespace, r.options.Name, AnnotationConfirm, token)
}

// hold sets the brake, or keeps the one that is set if it covers what would be
// removed now. The counts of a token only ever fall, or else leave given for a
// few would come to cover many.
func (p *pass) hold(ctx context.Context, next Brake) error {
	next.Since, next.Token = p.start, uuid.NewString()[:8]
	if p.held.covers(next) {
		next.Since, next.Token = p.held.Since, p.held.Token
		next.Purge, next.Sweep = min(next.Purge, p.held.Purge), min(next.Sweep, p.held.Sweep)
	}
	command := p.command(next.Token)
	note, err := p.record.Update(ctx, withBrake(p.note, &next, command))
	if err != nil {
		return fmt.Errorf("recording that nothing is removed: %w", err)
	}
	p.note, p.held = note, &next
	p.report.Held = next.Reason
	p.show(&next, p.command(next.Token))
	return nil
}

// release takes the brake off, if it is set.
func (p *pass) release(ctx context.Context) error {
	if p.held != nil || p.note.Annotations[AnnotationConfirm] != "" {
		note, err := p.record.Update(ctx, withBrake(p.note, nil, ""))
		if err != nil {
			return fmt.Errorf("recording that the brake is off: %w", err)
		}
		p.note, p.held = note, nil
	}
	p.released()
	return nil
}

// show tells of a brake, once of each.
func (r *Resyncer) show(b *Brake, command string) {
	before := r.brake.Swap(b)
	r.metrics.brake.Set(1)
	if before != nil && before.Token == b.Token {
		return
	}
	r.log.Error("nothing is removed until an operator confirms it", zap.Error(b), zap.String("reason", b.Reason),
		zap.Time("since", b.Since), zap.String("to confirm", command))
	r.tell(true, "ResyncHeld", b.Error()+"; to confirm: "+command)
}

func (r *Resyncer) released() {
	if r.brake.Swap(nil) != nil {
		r.log.Info("the resync is not held any more")
		r.tell(false, "ResyncReleased", "the resync is not held any more")
	}
	r.metrics.brake.Set(0)
}

// errOtherInstallation: the record was replaced while this process ran.
var errOtherInstallation = errors.New("the installation's id is another one than at the start of this process: restart it")
