//! `refdb check-storage`: tests on two or more hosts whether a folder that they share is safe for refs.
//!
//! The coordinator starts a process on its own host and on each `--peer`, waits until as many hosts as `--wait` says
//! have joined (`start`, `mail`), and sends all of them questions line by line (`host`, `serve`). The verdict follows
//! from what hosts report about themselves (`facts`), from whether refdb refuses to write refs there (`run`), from
//! fixed sequences of steps on two hosts (`scenes`), and from a random load on all hosts (`load`, `judge`).

mod client;
mod facts;
mod host;
mod judge;
mod load;
mod mail;
mod repository;
mod run;
pub mod scenes;
mod serve;
mod start;
mod verdict;

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, message},
    options::{Command, Opt, Parser, Value, Word},
};
use bstr::{BStr, ByteSlice};
use repository::Format;
use start::Peer;
use std::{
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

pub static COMMAND: Command = Command {
    program: "refdb",
    name: "check-storage",
    about: "Try whether a folder that several hosts share is safe for refs",
    synopsis: &[
        "--peer=<host>[:<program>]... [--ssh=<command>] [<options>] <folder>",
        "--wait=<n> [<options>] <folder>",
        "--join <folder>",
    ],
    options: &[
        Opt::flag("peer", "another host, reached by ssh, and the path of refdb there")
            .fixed()
            .takes(Value::Required("host")),
        Opt::flag("ssh", "the command that runs a command on a host (default: $REFDB_SSH, or ssh)")
            .fixed()
            .takes(Value::Required("command")),
        Opt::flag("wait", "wait for so many other hosts on which --join is run").fixed().takes(Value::Required("n")),
        Opt::flag("join", "be another host of the run that waits in this folder").fixed(),
        Opt::flag("seconds", "duration of the load (default: 60)").fixed().takes(Value::Required("n")),
        Opt::flag("format", "only refs stored like this: files or reftable").fixed().takes(Value::Required("format")),
        Opt::flag("serve", "answer the questions of another host on standard input").fixed().hidden(),
    ],
};

/// What the command line asks for.
struct Settings {
    /// `HOST` or `HOST:PROGRAM`.
    peers: Vec<Peer>,
    ssh: String,
    /// The number of hosts that have to join (`--wait`).
    wait: usize,
    time: Duration,
    formats: Vec<Format>,
}

/// The part that this process plays.
enum Part {
    Coordinate,
    Join,
    Serve,
}

/// Runs the command. Unless a signal ends the process, the coordinator's exit code is 0 if the folder is safe, 1 if
/// not, 2 if its safety could not be tested, 129 after wrong usage, and 128 after any other failure, for example if the
/// folder cannot be used; a host that has joined ends with 0 whatever the verdict is.
pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let (settings, part, folder) = parse(invocation)?;
    if let Part::Serve = part {
        serve::on_stdio();
        return Ok(0);
    }
    let dir = match std::fs::canonicalize(&folder) {
        Ok(dir) if dir.is_dir() => dir,
        Ok(_) => return fatal!["'", folder.display().to_string(), "' is not a folder"],
        Err(error) => {
            let why = crate::failure::system_text(&error);
            return fatal!["cannot use '", folder.display().to_string(), "': ", why];
        }
    };
    if let Err(error) = refdb_vfs::interrupt::catch_signals() {
        return fatal!["cannot catch signals: ", crate::failure::system_text(&error)];
    }
    match part {
        Part::Join => join(&dir),
        _ => run::coordinate(&settings, &dir),
    }
}

fn parse(invocation: &Invocation<'_>) -> Result<(Settings, Part, PathBuf)> {
    let formats = vec![Format::Files, Format::Reftable];
    let ssh = std::env::var("REFDB_SSH").unwrap_or_else(|_| "ssh".into());
    let mut settings = Settings { peers: Vec::new(), ssh, wait: 0, time: Duration::from_secs(60), formats };
    let (mut part, mut arguments) = (Part::Coordinate, Vec::new());
    let mut parser = Parser::new(&COMMAND, invocation.words);
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(argument) => arguments.push(argument),
            Word::Option(opt, setting) => match (opt.name, setting.value().unwrap_or_default()) {
                ("peer", host) => {
                    let peer = host.to_str().ok().and_then(Peer::parse);
                    let wrong = || COMMAND.wrong_use(Some("--peer takes <host> or <host>:<program>".into()));
                    settings.peers.push(peer.ok_or_else(wrong)?);
                }
                ("ssh", command) => settings.ssh = command.to_string(),
                ("wait", value) => settings.wait = number(opt.name, value)? as usize,
                ("seconds", value) => settings.time = Duration::from_secs(number(opt.name, value)?),
                ("format", value) => settings.formats = vec![format(value)?],
                ("join", _) => part = Part::Join,
                ("serve", _) => part = Part::Serve,
                _ => opt.unread(),
            },
        }
    }
    let [folder] = arguments[..] else { return Err(COMMAND.wrong_use(None)) };
    let has_peers = !settings.peers.is_empty() || settings.wait > 0;
    match part {
        Part::Coordinate if !has_peers => {
            Err(COMMAND.wrong_use(Some("name the other hosts by --peer, or their number by --wait".into())))
        }
        Part::Join if has_peers => Err(COMMAND.wrong_use(Some("--join takes no other hosts".into()))),
        _ => Ok((settings, part, folder.to_path_lossy().into_owned())),
    }
}

fn number(option: &str, value: &BStr) -> Result<u64> {
    let parsed = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|number| (1..=100_000).contains(number));
    parsed.ok_or_else(|| {
        COMMAND.wrong_use(Some(message!["option `", option, "' expects a number from 1 to 100000, not '", value, "'"]))
    })
}

fn format(value: &BStr) -> Result<Format> {
    match value.as_bytes() {
        b"files" => Ok(Format::Files),
        b"reftable" => Ok(Format::Reftable),
        _ => Err(COMMAND.wrong_use(Some(message!["there is no format '", value, "'"]))),
    }
}

/// Joins the run that waits for hosts in `dir`, and answers the coordinator through files in that folder.
fn join(dir: &Path) -> Result<u8> {
    let end = Instant::now() + mail::PATIENCE;
    let mailbox = loop {
        match mail::join(dir) {
            Ok(Some(mailbox)) => break mailbox,
            Ok(None) if refdb_vfs::interrupt::received().is_some() => return Err(Failure::Interrupted),
            Ok(None) if Instant::now() < end => sleep(Duration::from_millis(200)),
            Ok(None) => return fatal!["no run waits for hosts in '", dir.display().to_string(), "'"],
            Err(why) => return fatal!["cannot join in '", dir.display().to_string(), "': ", why],
        }
    };
    eprintln!("joined; the verdict is given where the run was started");
    let questions = mail::Inbox::new(&mailbox, mail::Way::Question);
    serve::serve(questions, mail::Outbox::new(&mailbox, mail::Way::Answer));
    if refdb_vfs::interrupt::received().is_some() { Err(Failure::Interrupted) } else { Ok(0) }
}
