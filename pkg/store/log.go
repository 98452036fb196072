package store

import (
	"context"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// LogTo sends what go-redis says by itself to log, at debug: whatever matters
// comes back as an error as well. It holds for the whole process.
func LogTo(log *zap.Logger) { redis.SetLogger(clientLog{log.Named("redis").Sugar()}) }

type clientLog struct{ log *zap.SugaredLogger }

func (l clientLog) Printf(_ context.Context, format string, v ...any) { l.log.Debugf(format, v...) }
