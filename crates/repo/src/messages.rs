//! Messages on standard error, in git's form.

use std::{io::Write, sync::OnceLock};

/// What takes the messages of this process instead of standard error.
static TAKER: OnceLock<Box<dyn Fn(Vec<u8>) + Send + Sync>> = OnceLock::new();

/// Passes all further messages of this process to `taker`, complete with their line ends, instead of writing them to
/// standard error. A process calls this at most once, at its start; later calls have no effect.
///
/// A write to standard error blocks for as long as nobody reads it, and with it every other thread that writes there.
/// A process that must go on passes its messages to a thread that writes them.
pub fn pass_to(taker: impl Fn(Vec<u8>) + Send + Sync + 'static) {
    let _ = TAKER.set(Box::new(taker));
}

/// Writes text as it is to standard error, or to what [`pass_to`] has named. If standard error is closed, the text is
/// lost.
pub fn write(text: Vec<u8>) {
    match TAKER.get() {
        Some(taker) => taker(text),
        None => _ = std::io::stderr().write_all(&text),
    }
}

/// Passes a prefix, a message and a newline to [`write`] in one call. As in git, control characters of the message
/// other than tabs and newlines become `?`, so that a refname cannot control somebody's terminal.
pub fn say(prefix: &str, message: &[u8]) {
    let mut line = Vec::with_capacity(prefix.len() + message.len() + 1);
    line.extend_from_slice(prefix.as_bytes());
    line.extend(message.iter().map(|&byte| if is_control(byte) { b'?' } else { byte }));
    line.push(b'\n');
    write(line);
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
