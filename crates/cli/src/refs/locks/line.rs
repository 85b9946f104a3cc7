//! How `refs locks` prints a lock: a sentence for people, or fields for programs.

use crate::refs::settle;
use refdb::{LockFile, LockRemoval, files::Outcome};
use refdb_vfs::{LockLook, LockState, Signature};
use std::{os::unix::ffi::OsStrExt, path::Path};

/// In which form lines are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Form {
    /// A sentence.
    #[default]
    Text,
    /// Fields with tabs between them; control characters become `?`.
    Fields,
    /// Fields, with a NUL at the end of the line and the path as it is.
    Exact,
}

/// Appends the line of a lock that is listed.
pub(super) fn push_lock(out: &mut Vec<u8>, file: &LockFile, form: Form) {
    let LockLook { state, signature, batch, age_seconds } = &file.look;
    if form == Form::Text {
        return push_text(out, &file.path, &sentence(&file.look));
    }
    let none = || "-".to_owned();
    let fields = [
        state_word(*state).to_owned(),
        age_seconds.to_string(),
        signature.as_ref().and_then(|signature| signature.host.clone()).unwrap_or_else(none),
        signature.as_ref().map_or_else(none, |signature| signature.pid.to_string()),
        signature.as_ref().map_or_else(none, |signature| signature.boot.clone()),
        batch.map_or_else(none, |id| id.to_string()),
    ];
    push_fields(out, &fields, &file.path, form);
}

/// Appends the line of a lock or a batch that was to be removed.
pub(super) fn push_removal(out: &mut Vec<u8>, path: &Path, removal: &LockRemoval, form: Form) {
    if form == Form::Text {
        return push_text(out, path, &removal_sentence(removal));
    }
    let word = match removal {
        LockRemoval::Removed => "removed",
        LockRemoval::Recovered(Outcome::Complete) => "finished",
        LockRemoval::Recovered(Outcome::Dropped) => "undone",
        LockRemoval::Recovered(Outcome::Half(_)) => "half-finished",
        LockRemoval::Held => "held",
        LockRemoval::Doubtful => "doubtful",
    };
    push_fields(out, &[word.to_owned()], path, form);
}

fn push_text(out: &mut Vec<u8>, path: &Path, sentence: &str) {
    push_plain(out, path.as_os_str().as_bytes());
    out.extend_from_slice(b": ");
    push_plain(out, sentence.as_bytes());
    out.push(b'\n');
}

fn push_fields(out: &mut Vec<u8>, fields: &[String], path: &Path, form: Form) {
    for field in fields {
        push_plain(out, field.as_bytes());
        out.push(b'\t');
    }
    match form {
        Form::Exact => {
            out.extend_from_slice(path.as_os_str().as_bytes());
            out.push(b'\0');
        }
        Form::Text | Form::Fields => {
            push_plain(out, path.as_os_str().as_bytes());
            out.push(b'\n');
        }
    }
}

/// Appends text with `?` in place of control characters, in UTF-8 or in one byte, because other users of a shared
/// repository, who can write a lock file and choose its name, must not control a terminal.
fn push_plain(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        let plain = |char: char| if char.is_control() { '?' } else { char };
        out.extend_from_slice(chunk.valid().chars().map(plain).collect::<String>().as_bytes());
        out.extend(chunk.invalid().iter().map(|&byte| if matches!(byte, 0x80..=0x9f) { b'?' } else { byte }));
    }
}

fn state_word(state: LockState) -> &'static str {
    match state {
        LockState::Unsigned => "unsigned",
        LockState::Held => "held",
        LockState::HeldElsewhere => "held-elsewhere",
        LockState::Stale => "stale",
        LockState::Unheld => "unheld",
        LockState::Doubtful => "doubtful",
    }
}

fn sentence(look: &LockLook) -> String {
    let age = age(look.age_seconds);
    let Some(signature) = &look.signature else {
        return format!("not signed: made by git, JGit or refdb's command line {age} ago");
    };
    let whose = maker(signature);
    let remedy = if look.batch.is_some() { "recovers its batch" } else { "removes it" };
    match look.state {
        LockState::Unsigned => format!("not signed: made {age} ago"),
        LockState::Held => format!("held on this machine by {whose}, for {age}"),
        LockState::HeldElsewhere => format!("held on another machine, by {whose}, for {age}"),
        LockState::Stale => format!("stale: left {age} ago by {whose}, which has ended; refdb's next writer {remedy}"),
        LockState::Unheld => format!(
            "not held: left {age} ago by {whose}, which has ended, or whose machine was restarted, is off, or is cut off \
             from the file server"
        ),
        LockState::Doubtful => {
            format!("perhaps held, which this mount does not show: left {age} ago by {whose}")
        }
    }
}

fn maker(Signature { pid, boot, host }: &Signature) -> String {
    match host {
        Some(host) => format!("process {pid} of {host} (boot {boot})"),
        None => format!("process {pid} of an unnamed machine (boot {boot})"),
    }
}

fn removal_sentence(removal: &LockRemoval) -> String {
    match removal {
        LockRemoval::Removed => "removed".to_owned(),
        LockRemoval::Recovered(outcome) => settle::outcome_text(outcome),
        LockRemoval::Held => {
            "kept: somebody holds it; if the machine went down just now, its file server gives the lock \
                              up within two minutes"
                .to_owned()
        }
        LockRemoval::Doubtful => {
            "kept: this mount does not show whether another machine holds it; once that machine is \
                                  off, add --machine-is-off"
                .to_owned()
        }
    }
}

/// Returns an age in the largest suitable unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bstr::BString;

    #[test]
    fn an_age_is_told_in_its_largest_unit() {
        let ages = [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(age);
        assert_eq!(ages, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }

    #[test]
    fn what_another_user_has_written_does_not_control_a_terminal() {
        let signature = Signature { pid: 7, boot: "x\u{1b}[2J\ty".into(), host: None };
        let look = LockLook { state: LockState::Unheld, signature: Some(signature), batch: None, age_seconds: 1 };
        let file = LockFile { path: "/r/refs/a\nb\u{1b}.lock".into(), look };
        for form in [Form::Text, Form::Fields] {
            let mut out = Vec::new();
            push_lock(&mut out, &file, form);
            assert!(!out.contains(&0x1b), "{out:?}");
            assert_eq!(out.iter().position(|byte| *byte == b'\n'), Some(out.len() - 1));
        }
        let mut out = Vec::new();
        push_lock(&mut out, &file, Form::Exact);
        assert!(out.ends_with(b"\t/r/refs/a\nb\x1b.lock\0"));
        assert_eq!(out.iter().filter(|byte| **byte == b'\t').count(), 6, "the tab of a boot id is none of its own");
    }

    /// Regression: control characters outside ASCII were printed as they are.
    #[test]
    fn control_characters_outside_ascii_do_not_control_a_terminal_either() {
        let shown = |text: &[u8]| {
            let mut out = Vec::new();
            push_plain(&mut out, text);
            BString::from(out)
        };
        assert_eq!(shown("a\u{9b}2J\u{85}ä€\u{7f}\u{1b}".as_bytes()), "a?2J?ä€??");
        assert_eq!(shown(b"a\x9b2J\xe4\xff\xc3"), BString::from(b"a?2J\xe4\xff\xc3"));
    }
}
