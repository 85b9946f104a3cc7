# The commands a developer needs; CONTRIBUTING.md says what each proves. Every one installs what it lacks.

.PHONY: demo gerrit test test-long check bench git-suite dist packages image site fuzz-smoke build
# Packages and image are made of what dist has made. With -j, make would begin them at the same time.
.NOTPARALLEL:

demo:                ## show the main job beside git
	scripts/demo

gerrit:              ## a real Gerrit on loopback with refdb in it, to try
	scripts/gerrit-demo $(ARGS)

test:                ## every test
	scripts/test

test-long:           ## the long proofs, hours of them; ARGS are words to choose by
	scripts/test-long $(ARGS)

check:               ## formatting, lints, licences, tidiness
	scripts/check

bench:               ## the tables of figures, against git
	bench/bench $(ARGS)

git-suite:           ## git's own test scripts, with refdb in place of git's ref commands
	scripts/git-suite "$$(scripts/build-release)"

fuzz-smoke:          ## every fuzz target for a short time
	scripts/fuzz-smoke

build:               ## the static release binary; prints where it is
	scripts/build-release

packages:            ## Debian packages in dist/packages/, of what lies in dist/
	scripts/packages

image:               ## an OCI image of Gerrit with refdb in dist/, of what lies there
	scripts/image $(ARGS)

site:                ## the documentation as a web site in dist/site/
	scripts/site

dist:                ## binaries, completions, man pages and the jar for Gerrit in dist/
	scripts/dist
