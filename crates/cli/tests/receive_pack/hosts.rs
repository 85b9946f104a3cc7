//! Runs refdb where the servers look for `git receive-pack`: sshd, git daemon, http-backend, git-shell.

mod cgi;
mod clients;
mod plugged_in;
mod servers;
