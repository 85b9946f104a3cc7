//! Messages on standard error, in git's form.

use std::io::Write;

/// Prints a prefix and a message on standard error, usually in a single write. As in git, control characters of the
/// message other than tabs and newlines become `?`, so that a refname cannot control somebody's terminal.
pub fn say(prefix: &str, message: &[u8]) {
    let mut line = Vec::with_capacity(prefix.len() + message.len() + 1);
    line.extend_from_slice(prefix.as_bytes());
    line.extend(message.iter().map(|&byte| if is_control(byte) { b'?' } else { byte }));
    line.push(b'\n');
    // If standard error is closed, nobody can be told.
    let _ = std::io::stderr().write_all(&line);
}

/// Replaces control characters as [`say`] does.
pub(crate) fn without_controls(message: &str) -> String {
    message.replace(|char| u8::try_from(char).is_ok_and(is_control), "?")
}

fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && !b"\t\n".contains(&byte)
}

/// Returns the system's message without the number that Rust adds.
pub fn system_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}
