package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// completion prints what a shell needs to complete command lines. It is made from the flags themselves.
type completion struct{}

func (*completion) flags(*flag.FlagSet) {}

func (*completion) main(t *tool, args []string) error {
	shells := map[string]func(io.Writer){"bash": completeBash, "zsh": completeZsh, "fish": completeFish}
	if len(args) != 1 || shells[args[0]] == nil {
		return usageError("one of bash, zsh and fish is needed")
	}
	shells[args[0]](t.out)
	return nil
}

// option is a flag as it stands in a completion or in the manual.
type option struct {
	name, value, usage, byDefault string // value is what it takes, "" for none
}

func (c subcommand) options() (all []option) {
	c.flagSet().VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		all = append(all, option{f.Name, value, usage, f.DefValue})
	})
	return all
}

// words are what can come after a subcommand and is no flag.
func (c subcommand) words() string {
	if c.name == "completion" {
		return "bash zsh fish"
	}
	return ""
}

func commandNames(all []subcommand) string {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	return strings.Join(names, " ")
}

func completeBash(w io.Writer) {
	fmt.Fprint(w, `# bash completion for zklock: source <(zklock completion bash)
_zklock() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= i
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W "`+commandNames(subcommands())+` help" -- "$cur"))
		return
	fi
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then # the command that is run, and its arguments
			if ((i == COMP_CWORD - 1)); then COMPREPLY=($(compgen -c -- "$cur")); else COMPREPLY=($(compgen -f -- "$cur")); fi
			return
		fi
	done
	case ${COMP_WORDS[1]} in
`)
	for _, c := range subcommands() {
		var flags, taking []string
		for _, o := range c.options() {
			flags = append(flags, "-"+o.name)
			if o.value != "" {
				taking = append(taking, "-"+o.name)
			}
		}
		fmt.Fprintf(w, "\t%s)\n", c.name)
		if len(taking) > 0 {
			fmt.Fprintf(w, "\t\tcase $prev in %s) return ;; esac\n", strings.Join(taking, "|"))
		}
		fmt.Fprintf(w, "\t\twords=%q ;;\n", strings.TrimSpace(strings.Join(flags, " ")+" "+c.words()))
	}
	fmt.Fprint(w, `	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _zklock zklock
`)
}

// quoteShell puts text into single quotes.
func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func completeZsh(w io.Writer) {
	fmt.Fprint(w, "#compdef zklock\n# zsh completion for zklock: source <(zklock completion zsh)\n_zklock() {\n\tif ((CURRENT == 2)); then\n\t\tlocal -a commands=(\n")
	for _, c := range subcommands() {
		fmt.Fprintf(w, "\t\t\t%s\n", quoteShell(c.name+":"+c.does))
	}
	fmt.Fprint(w, "\t\t)\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tlocal command=$words[2] end=${words[(i)--]}\n\tif ((end < CURRENT)); then # the command that is run, and its arguments\n\t\tshift end words\n\t\t((CURRENT -= end))\n\t\t_normal\n\t\treturn\n\tfi\n\twords=(\"zklock $command\" ${words[3,-1]})\n\t((CURRENT--))\n\tcase $command in\n")
	escape := strings.NewReplacer("[", "(", "]", ")", ":", `\:`, "\n", " ")
	for _, c := range subcommands() {
		fmt.Fprintf(w, "\t%s)\n\t\t_arguments", c.name)
		for _, o := range c.options() {
			spec := "-" + o.name + "[" + escape.Replace(o.usage) + "]"
			if o.value != "" {
				spec += ":" + escape.Replace(o.value) + ":"
			}
			fmt.Fprintf(w, " \\\n\t\t\t%s", quoteShell(spec))
		}
		switch {
		case c.words() != "":
			fmt.Fprintf(w, " \\\n\t\t\t%s", quoteShell("1:shell:("+c.words()+")"))
		case c.name == "run" || c.name == "elect":
			fmt.Fprintf(w, " \\\n\t\t\t'1:path:'")
		}
		fmt.Fprint(w, " ;;\n")
	}
	fmt.Fprint(w, "\tesac\n}\ncompdef _zklock zklock\n")
}

func completeFish(w io.Writer) {
	fmt.Fprint(w, "# fish completion for zklock: zklock completion fish | source\n")
	quote := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
	}
	for _, c := range subcommands() {
		fmt.Fprintf(w, "complete -c zklock -f -n __fish_use_subcommand -a %s -d %s\n", c.name, quote(c.does))
	}
	for _, c := range subcommands() {
		for _, o := range c.options() {
			takes := ""
			if o.value != "" {
				takes = " -x"
			}
			fmt.Fprintf(w, "complete -c zklock -n '__fish_seen_subcommand_from %s' -o %s%s -d %s\n", c.name, o.name, takes, quote(o.usage))
		}
		if c.words() != "" {
			fmt.Fprintf(w, "complete -c zklock -f -n '__fish_seen_subcommand_from %s' -a %s\n", c.name, quote(c.words()))
		}
	}
}
