package telemetry

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// Formats of a log record.
const (
	FormatJSON    = "json"
	FormatConsole = "console"
)

// NewLogger writes records of the level (debug, info, warn, error) and above
// to out. The returned level can be changed while the logger is in use. It
// fails for a format or level that does not exist.
func NewLogger(format, level string, out zapcore.WriteSyncer) (*zap.Logger, zap.AtomicLevel, error) {
	threshold, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, zap.AtomicLevel{}, fmt.Errorf("log level: %w", err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.SecondsDurationEncoder
	var encoder zapcore.Encoder
	switch format {
	case FormatJSON:
		encoder = zapcore.NewJSONEncoder(encoding)
	case FormatConsole:
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		encoding.EncodeDuration = zapcore.StringDurationEncoder
		encoder = zapcore.NewConsoleEncoder(encoding)
	default:
		return nil, zap.AtomicLevel{}, fmt.Errorf("log format: %q is neither %s nor %s", format, FormatJSON, FormatConsole)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(out), threshold)
	return zap.New(core, zap.AddCaller()), threshold, nil
}

// How many bytes Buffered gathers, and for how long at most.
const (
	bufferSize     = 256 << 10
	bufferInterval = 100 * time.Millisecond
)

// Buffered gathers what is written and passes it on ten times a second, whole
// records at a time, which spares a busy program a system call for each. Sync
// passes on at once. A process that is killed loses what it has not passed on.
func Buffered(out zapcore.WriteSyncer) zapcore.WriteSyncer {
	return &zapcore.BufferedWriteSyncer{WS: zapcore.Lock(out), Size: bufferSize, FlushInterval: bufferInterval}
}

// BridgeKlog sends what client-go logs through klog to log, and returns the
// same bridge for libraries that take a logr. It changes the whole process:
// call it once, before anything uses klog.
func BridgeKlog(log *zap.Logger) logr.Logger {
	bridge := zapr.NewLogger(log)
	klog.SetLogger(bridge)
	return bridge
}
