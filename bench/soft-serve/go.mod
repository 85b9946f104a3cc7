module soft

go 1.24

require github.com/charmbracelet/soft-serve v0.7.4
