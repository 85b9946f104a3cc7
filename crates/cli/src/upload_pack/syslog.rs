//! Writes lines to the system's log.

use std::{os::unix::net::UnixDatagram, path::Path};

/// The socket of the log.
const LOG: &str = "/dev/log";

/// The priority of RFC 3164 for a notice (5) of a daemon (3): 3 * 8 + 5.
const PRIORITY: u32 = 29;

/// Writes a line to the system's log. Does nothing if that fails, for example because there is no log or the log is
/// full.
pub(super) fn write(text: &str) {
    write_to(Path::new(LOG), text);
}

fn write_to(log: &Path, text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let line = format!("<{PRIORITY}>refdb-upload-pack[{}]: {text}", std::process::id());
    let socket = UnixDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    // A log that is full or missing must not delay the client.
    _ = socket.and_then(|socket| socket.send_to(line.as_bytes(), log));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_gets_one_line_and_may_be_missing() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("log");
        write_to(&path, "nobody listens");
        let log = UnixDatagram::bind(&path).unwrap();
        write_to(&path, "one\nline");
        let mut line = [0; 100];
        let count = log.recv(&mut line).unwrap();
        let wanted = format!("<29>refdb-upload-pack[{}]: one?line", std::process::id());
        assert_eq!(str::from_utf8(&line[..count]).unwrap(), wanted);
    }
}
