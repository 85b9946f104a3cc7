package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/anishathalye/porcupine"
)

func isLinearizable(t *testing.T, history string) bool {
	file := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(file, []byte(history), 0o600); err != nil {
		t.Fatal(err)
	}
	refs, _, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	return porcupine.CheckOperations(model, refs["r"])
}

const created = `{"client":1,"kind":"put","ref":"r","call":1,"return":2,"result":"done","from":"","to":"v"}
`

func TestAnUpdateOfUnknownOutcomeCanBeTheReasonOfALaterRefusal(t *testing.T) {
	unknown := `{"client":1,"kind":"put","ref":"r","call":3,"return":-1,"result":"unknown","from":"v","to":"w"}
`
	refused := `{"client":2,"kind":"put","ref":"r","call":4,"return":5,"result":"refused","from":"v","to":"x"}
`
	if !isLinearizable(t, created+unknown+refused) {
		t.Error("the update whose outcome is not known was made before the other one")
	}
	if isLinearizable(t, created+refused) {
		t.Error("nothing changed the value from which an update was refused")
	}
	early := `{"client":2,"kind":"put","ref":"r","call":3,"return":4,"result":"refused","from":"v","to":"x"}
`
	late := `{"client":1,"kind":"put","ref":"r","call":5,"return":-1,"result":"unknown","from":"v","to":"w"}
`
	if isLinearizable(t, created+early+late) {
		t.Error("an update is no reason of a refusal before it")
	}
}

func TestWhatNobodySawAndNothingDependsOnIsLeftOut(t *testing.T) {
	ops := []porcupine.Operation{
		{Input: operation{Kind: "put", Result: "done", To: "v"}, Call: 1, Return: 2},
		{Input: operation{Kind: "put", Result: "unknown", From: "v", To: "w"}, Call: 3, Return: -1},
		{Input: operation{Kind: "put", Result: "refused", From: "u", To: "x"}, Call: 4, Return: 5},
	}
	if kept := settled(ops); len(kept) != 2 {
		t.Errorf("%d operations are left", len(kept))
	}
}
