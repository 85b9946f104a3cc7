// Checks a recorded history of compare-and-puts, reads and locks of refs for linearizability, by porcupine.
// Ends with 0 if it is linearizable, 1 if not, 2 if that is not known: not decided in time, or no history to check.
//
//	histories FILE
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// operation is a line of the history. One that was told as unknown never returns.
type operation struct {
	Client int    `json:"client"`
	Kind   string `json:"kind"`
	Ref    string `json:"ref"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
	Result string `json:"result"`
	From   string `json:"from"`
	To     string `json:"to"`
	Locked bool   `json:"locked"`
}

// anyValue is for an update whose client does not say what the ref has before: that there is something is enough.
const anyValue = "*"

// ref is a value, and the client that got the lock last. Its lease may run out at any time, so anyone may get the lock next.
type ref struct {
	value  string
	holder int
}

func step(state, input, output interface{}) (bool, interface{}) {
	now, op := state.(ref), input.(operation)
	switch op.Kind {
	case "read":
		return now.value == op.To, now
	case "lock":
		return true, ref{now.value, op.Client}
	}
	fits := (now.value == op.From || op.From == anyValue && now.value != "") && (!op.Locked || now.holder == op.Client)
	switch {
	case op.Result == "done":
		return fits, ref{op.To, now.holder}
	case op.Result == "unknown" && fits:
		return true, ref{op.To, now.holder}
	case op.Result == "refused":
		return now.value != op.From, now
	}
	return true, now
}

var model = porcupine.Model{Init: func() interface{} { return ref{} }, Step: step}

func read(name string) (map[string][]porcupine.Operation, int, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	refs, last, count := map[string][]porcupine.Operation{}, int64(0), 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, 0, fmt.Errorf("%s: %s: %w", name, lines.Text(), err)
		}
		count++
		refs[op.Ref] = append(refs[op.Ref], porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: op.Return})
		if op.Return > last {
			last = op.Return
		}
	}
	for name := range refs {
		refs[name] = settled(refs[name])
	}
	for _, ops := range refs {
		for i := range ops {
			if ops[i].Return < 0 {
				ops[i].Return = last + 1
			}
		}
	}
	return refs, count, lines.Err()
}

// settled takes doubt away, of which each makes the search twice as long. Values are used once. So an update of unknown outcome
// whose value somebody saw was done, before they were told. If nobody saw it, it makes no difference to updates: the next one
// is from any value. That one needs a value, so what created a ref is left as it is. An update from a value is left, too, if
// another one from that value was refused later, because it may be the reason.
func settled(ops []porcupine.Operation) []porcupine.Operation {
	seen, from := map[string]int64{}, map[string]int64{}
	note := func(in map[string]int64, value string, at int64) {
		if before, has := in[value]; at >= 0 && (!has || at < before) {
			in[value] = at
		}
	}
	puts, refused := map[string]int{}, map[string]int64{}
	for _, each := range ops {
		op := each.Input.(operation)
		switch {
		case op.Kind == "read":
			note(seen, op.To, each.Return)
		case op.Kind == "put":
			puts[op.To]++
			if op.Result == "done" {
				note(seen, op.From, each.Return)
			}
			if op.Result == "unknown" {
				note(from, op.From, 0)
			}
			if op.Result == "refused" && each.Return > refused[op.From] {
				refused[op.From] = each.Return
			}
		}
	}
	kept := []porcupine.Operation{}
	for _, each := range ops {
		op := each.Input.(operation)
		if op.Kind == "put" && op.Result == "unknown" && op.To != "" && puts[op.To] == 1 {
			_, wasFrom := from[op.To]
			at, wasSeen := seen[op.To]
			if !wasSeen && !wasFrom && op.From != "" && refused[op.From] < each.Call {
				continue
			}
			if wasSeen {
				op.Result = "done"
				each.Input, each.Return = op, at
			}
		}
		kept = append(kept, each)
	}
	return kept
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: histories FILE")
		os.Exit(2)
	}
	refs, count, err := read(os.Args[1])
	if err != nil || count == 0 {
		fmt.Fprintln(os.Stderr, "histories: nothing to check:", err)
		os.Exit(2)
	}
	names, status := []string{}, 0
	for name := range refs {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		switch porcupine.CheckOperationsTimeout(model, refs[name], 5*time.Minute) {
		case porcupine.Illegal:
			fmt.Printf("%s: NOT linearizable, %d operations\n", name, len(refs[name]))
			status = 1
		case porcupine.Unknown:
			fmt.Printf("%s: not decided in time, %d operations\n", name, len(refs[name]))
			if status == 0 {
				status = 2
			}
		}
	}
	fmt.Printf("%d operations on %d refs\n", count, len(refs))
	os.Exit(status)
}
