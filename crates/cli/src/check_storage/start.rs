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
    sync::Arc,
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

fn by_ssh(number: usize, peer: &str, settings: &Settings, run: &Path) -> Result<Host, Trouble> {
    let (name, program) = &split(peer);
    let there = format!("{} check-storage --serve {}", quoted(program), quoted(&run.to_string_lossy()));
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{} \"$@\"", settings.ssh)).args(["check-storage", name, &there]);
    Host::start(number, name.clone(), command).map_err(|error| Trouble::Host(format!("cannot run ssh: {error}")))
}

/// Splits `HOST:PROGRAM` into the name that ssh takes and the program, which is refdb if none is given. An address with
/// colons stands in brackets, which ssh does not take.
fn split(peer: &str) -> (String, &str) {
    let bracketed = peer.split_once('[').filter(|(user, _)| user.is_empty() || user.ends_with('@'));
    let bracketed = bracketed.and_then(|(user, rest)| Some((user, rest.split_once(']')?)));
    let (name, rest) = match bracketed {
        Some((user, (address, rest))) => (format!("{user}{address}"), rest),
        None => {
            let (name, rest) = peer.split_at(peer.find(':').unwrap_or(peer.len()));
            (name.to_owned(), rest)
        }
    };
    (name, rest.strip_prefix(':').unwrap_or("refdb"))
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
        let answers = mail::Inbox::new(&mailbox, mail::Way::Answer, &Arc::default());
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
        let whole = |(name, program): (String, &str)| format!("{name} {program}");
        assert_eq!(whole(split("node2")), "node2 refdb");
        assert_eq!(whole(split("u@node2:/opt/refdb")), "u@node2 /opt/refdb");
        assert_eq!(whole(split("[fe80::1%eth0]")), "fe80::1%eth0 refdb");
        assert_eq!(whole(split("u@[::1]:/opt/refdb")), "u@::1 /opt/refdb");
    }
}
