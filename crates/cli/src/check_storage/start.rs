//! Starts or finds the hosts of a run, and checks that they see its folder.

use super::{
    Settings,
    host::{Failure, Host, Trouble},
    mail,
    repository::{self, RunFolder},
};
use refdb_vfs::{BatchId, interrupt};
use std::{
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

/// Returns a connection to a process on each host, this one first, after checking that each runs the same version of
/// refdb and sees the folder of the run.
pub(super) fn all(settings: &Settings, run: &RunFolder) -> Result<Vec<Host>, Trouble> {
    let mut hosts = vec![own(&run.path)?];
    for peer in &settings.peers {
        hosts.push(by_ssh(hosts.len(), peer, settings, &run.path)?);
    }
    if settings.wait > 0 {
        by_mail(settings.wait, run, &mut hosts)?;
    }
    let sign = BatchId::random().to_string();
    let path = run.path.join("sign");
    repository::write(&path, &sign).map_err(Trouble::Here)?;
    for host in &hosts {
        let version = host.ask(0, &["version"]).map_err(|why| host.trouble(why))?;
        if version != env!("CARGO_PKG_VERSION") {
            let text = format!("{} has refdb {version}, not {}", host.label, env!("CARGO_PKG_VERSION"));
            return Err(Trouble::Host(text));
        }
        match host.ask(0, &["see", &path.to_string_lossy()]) {
            Ok(seen) if seen == sign => {}
            Ok(_) | Err(Failure::Said(_)) => {
                let folder = run.path.parent().unwrap_or(&run.path).display();
                let text = format!("'{folder}' on {} is not the folder of this host", host.label);
                return Err(Trouble::Host(text));
            }
            Err(why) => return Err(host.trouble(why)),
        }
    }
    Ok(hosts)
}

fn own(run: &Path) -> Result<Host, Trouble> {
    let label = String::from_utf8_lossy(&refdb_vfs::host_name()).into_owned();
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "refdb".into()));
    command.args(["check-storage", "--serve"]).arg(run);
    Host::start(0, label, command).map_err(|error| Trouble::Host(format!("cannot start refdb again: {error}")))
}

fn by_ssh(number: usize, peer: &Peer, settings: &Settings, run: &Path) -> Result<Host, Trouble> {
    let Peer { name, program } = peer;
    let there = format!("{} check-storage --serve {}", quoted(program), quoted(&run.to_string_lossy()));
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{} \"$@\"", settings.ssh)).args(["check-storage", name, &there]);
    Host::start(number, name.clone(), command).map_err(|error| Trouble::Host(format!("cannot run ssh: {error}")))
}

/// A host that is reached by ssh.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// The name that ssh takes.
    name: String,
    /// The path of refdb there.
    program: String,
}

impl Peer {
    /// Parses `HOST` or `HOST:PROGRAM`. An address with colons stands in brackets, which ssh does not take.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bracketed = text.split_once('[').filter(|(user, _)| user.is_empty() || user.ends_with('@'));
        let bracketed = bracketed.and_then(|(user, rest)| Some((user, rest.split_once(']')?)));
        let (name, rest) = match bracketed {
            Some((user, (address, rest))) => (format!("{user}{address}"), rest),
            None => {
                let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
                (name.to_owned(), rest)
            }
        };
        let program = if rest.is_empty() { "refdb" } else { rest.strip_prefix(':')? };
        let is_whole = !name.is_empty() && !program.is_empty();
        is_whole.then(|| Peer { name, program: program.to_owned() })
    }
}

/// Waits until `count` hosts have joined the run, and adds them to `hosts`.
fn by_mail(count: usize, run: &RunFolder, hosts: &mut Vec<Host>) -> Result<(), Trouble> {
    let office = mail::open_office(&run.path).map_err(Trouble::Here)?;
    let dir = run.path.parent().unwrap_or(&run.path).to_string_lossy().into_owned();
    eprintln!("now run on {count} other host(s): refdb check-storage --join {}", quoted(&dir));
    let end = Instant::now() + mail::PATIENCE;
    let joined = loop {
        let joined = mail::joined(&office).map_err(Trouble::Here)?;
        if joined.len() >= count {
            break joined;
        }
        if interrupt::received().is_some() {
            return Err(Trouble::Interrupted);
        }
        if Instant::now() > end {
            let patience = mail::PATIENCE.as_secs();
            let text = format!("{} of {count} hosts joined within {patience} s", joined.len());
            return Err(Trouble::Host(text));
        }
        sleep(Duration::from_millis(200));
    };
    for (name, mailbox) in joined.into_iter().take(count) {
        let answers = mail::Inbox::new(&mailbox, mail::Way::Answer);
        let sink = Box::new(mail::Outbox::new(&mailbox, mail::Way::Question));
        hosts.push(Host::new(hosts.len(), name, sink, answers));
    }
    Ok(())
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_colons_is_told_from_the_program() {
        let parsed = |text| Peer::parse(text).map(|Peer { name, program }| format!("{name} {program}"));
        assert_eq!(parsed("node2").as_deref(), Some("node2 refdb"));
        assert_eq!(parsed("u@node2:/opt/refdb").as_deref(), Some("u@node2 /opt/refdb"));
        assert_eq!(parsed("[fe80::1%eth0]").as_deref(), Some("fe80::1%eth0 refdb"));
        assert_eq!(parsed("u@[::1]:/opt/refdb").as_deref(), Some("u@::1 /opt/refdb"));
        // Previously, these were taken for hosts whose connection ends.
        for bad in ["", ":refdb", "node2:", "[::1]:", "[::1]refdb"] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}
