package config

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// parser collects the settings of one program, and every problem with them.
type parser struct {
	program, about string
	flags          *pflag.FlagSet
	// settings in the order of the usage text.
	settings []setting
	problems []error
}

// setting is a flag and the environment variable behind it.
type setting struct{ flag, env string }

func newParser(program, about string) *parser {
	p := &parser{program: program, about: about, flags: pflag.NewFlagSet(program, pflag.ContinueOnError)}
	p.flags.SetOutput(io.Discard) // problems are returned, not printed
	p.flags.SortFlags = false
	p.flags.Usage = func() {}
	// klog's flags are spelled with underscores, and by some with hyphens.
	p.flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	p.flags.BoolP("help", "h", false, "print this text")
	p.flags.Bool("version", false, "print the version")
	return p
}

// envPrefix begins the variable of every setting that has no older name.
const envPrefix = "AGENTCUBE_"

// env gives each flag the variable named after it: AGENTCUBE_DRAIN_DELAY for
// drain-delay.
func (p *parser) env(flags ...string) {
	for _, flag := range flags {
		p.envNamed(flag, envPrefix+strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
	}
}

// envNamed names the variable that gives the flag when the command line does
// not, and puts it into the usage text. An empty variable counts as not set.
func (p *parser) envNamed(flag, variable string) {
	f := p.flags.Lookup(flag)
	f.Usage += " [$" + variable + "]"
	p.settings = append(p.settings, setting{flag: flag, env: variable})
}

// parse reads the command line and then, for flags it does not give, the
// environment. It returns an error for --help and --version only; problems
// are collected.
func (p *parser) parse(args []string, getenv func(string) string) error {
	known := p.known(args)
	// pflag stops at the first bad value; this way every one is reported.
	err := p.flags.ParseAll(known, func(f *pflag.Flag, value string) error {
		p.set(f, value, "--"+f.Name)
		return nil
	})
	switch {
	case errors.Is(err, pflag.ErrHelp), p.flag("help"):
		return &HelpError{Usage: p.usage()}
	case err != nil:
		p.problem("%w", err)
	case p.flag("version"):
		return ErrVersion
	}
	for _, arg := range p.flags.Args() {
		p.problem("unexpected argument %q", arg)
	}
	for _, s := range p.settings {
		f := p.flags.Lookup(s.flag)
		value := getenv(s.env)
		if f.Changed || value == "" {
			continue
		}
		p.set(f, value, "$"+s.env)
	}
	return nil
}

func (p *parser) set(f *pflag.Flag, value, source string) {
	if err := p.flags.Set(f.Name, value); err != nil {
		// pflag names the flag and the value, and so would show a password;
		// but no value of a text flag can be wrong.
		p.problem("%s: %q is not a valid %s", source, value, f.Value.Type())
	}
}

// given reports whether the command line or the environment set the flag.
func (p *parser) given(flag string) bool {
	return p.flags.Changed(flag)
}

func (p *parser) flag(name string) bool {
	on, err := p.flags.GetBool(name)
	return err == nil && on
}

func (p *parser) problem(format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf(format, args...))
}

// known returns the arguments pflag can parse. A long flag with one hyphen,
// as klog's are written, gets its second one, and unknown flags become
// problems, so that they do not hide others behind them.
func (p *parser) known(args []string) []string {
	var known []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(known, args[i:]...)
		}
		if len(arg) < 2 || arg[0] != '-' {
			known = append(known, arg)
			continue
		}
		flag, spelled := p.lookup(arg)
		valueFollows := i+1 < len(args) && !strings.Contains(spelled, "=")
		if flag == nil {
			p.problem("unknown flag %s", spelled)
			valueFollows = valueFollows && spelled == arg && !strings.HasPrefix(args[i+1], "-")
		} else {
			known = append(known, spelled)
			// It is the value of this flag, whatever it looks like.
			valueFollows = valueFollows && flag.NoOptDefVal == ""
		}
		if valueFollows {
			i++
			if flag != nil {
				known = append(known, args[i])
			}
		}
	}
	return known
}

// lookup finds the flag an argument names, nil for none, and spells the
// argument as pflag wants it; an unknown one loses its value, which may be a
// secret.
func (p *parser) lookup(arg string) (flag *pflag.Flag, spelled string) {
	hyphens := len(arg) - len(strings.TrimLeft(arg, "-"))
	name, value, hasValue := strings.Cut(arg[hyphens:], "=")
	if hyphens <= 2 && name != "" {
		flag = p.flags.Lookup(name)
		if short := p.flags.ShorthandLookup(name[:1]); flag == nil && short != nil && hyphens == 1 && !hasValue {
			// -h, and -v2
			flag, value, hasValue = short, name[1:], len(name) > 1
		}
	}
	if flag == nil {
		return nil, arg[:hyphens] + name
	}
	spelled = "--" + flag.Name
	if hasValue {
		spelled += "=" + value
	}
	return flag, spelled
}

func (p *parser) usage() string {
	return fmt.Sprintf("%s\n\nUsage: %s [flags]\n\nA flag that is not given is read from the variable in brackets behind it.\n\nFlags:\n%s",
		p.about, p.program, p.flags.FlagUsagesWrapped(100))
}
