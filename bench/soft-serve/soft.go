//go:build tools

// Package soft names the program that is built: soft-serve, a rival of refdb serve.
package soft

import _ "github.com/charmbracelet/soft-serve/cmd/soft"
