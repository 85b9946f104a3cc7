//! Copies git's output to the client. Git does not know the limits that refdb enforces, so refdb inserts a message if a
//! program has been killed because of a limit.

use refdb_vfs::interrupt;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// Number of hexadecimal digits of the length with which a packet begins.
const LENGTH_BYTES: usize = 4;

/// Interval between checks whether a signal has arrived.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the rest of git's output is still copied after a signal.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A thread that copies the output of git to the client.
#[derive(Debug)]
pub(super) struct Relay {
    message: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Relay {
    /// Copies the output of git to the client until git closes its end or the client disconnects. `is_advertised` says
    /// whether the advertisement has been sent before, so that the output does not begin with it. Fails if the system
    /// gives no thread.
    pub(super) fn start(git: impl Read + Send + 'static, mut client: File, is_advertised: bool) -> io::Result<Relay> {
        let message = Arc::<Mutex<Vec<u8>>>::default();
        let ours = Arc::clone(&message);
        let (end, ended) = mpsc::channel();
        thread::Builder::new().name("relay".into()).spawn(move || {
            // An error usually means that the client has disconnected. Dropping the reader then closes the pipe, so
            // that git notices.
            let _ = pass_on(&mut BufReader::new(git), &mut client, is_advertised, &ours);
            drop(end);
        })?;
        Ok(Relay { message, ended })
    }

    /// Has an error message sent to the user before git's next packet that is not a flush packet. The message is lost
    /// if that packet is not of a side band, or if git sends no such packet.
    pub(super) fn tell(&self, error: &str) {
        let mut message = self.message.lock().unwrap_or_else(PoisonError::into_inner);
        message.extend_from_slice(format!("error: {error}\n").as_bytes());
    }

    /// Waits until all output of git has been copied or the client has disconnected. Once a signal asks this process to
    /// end, waits only about [`LAST_WORDS`] more, because a client that does not read would hold this process up for
    /// ever.
    pub(super) fn finish(self) {
        self.finish_unless(|| interrupt::received().is_some());
    }

    fn finish_unless(self, must_end: impl Fn() -> bool) {
        let mut told = None;
        // The thread sends nothing, and drops its end of the channel when it ends.
        while self.ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            if must_end() && told.get_or_insert_with(Instant::now).elapsed() >= LAST_WORDS {
                return;
            }
        }
    }
}

fn pass_on(
    git: &mut impl BufRead,
    client: &mut impl Write,
    mut is_advertised: bool,
    message: &Mutex<Vec<u8>>,
) -> io::Result<()> {
    let mut packet = Vec::new();
    loop {
        packet.clear();
        git.take(LENGTH_BYTES as u64).read_to_end(&mut packet)?;
        let Some(length) = packet_length(&packet) else { break };
        if length == 0 {
            is_advertised = true;
        } else {
            git.take((length - LENGTH_BYTES) as u64).read_to_end(&mut packet)?;
            let is_of_side_band = is_advertised && matches!(packet.get(LENGTH_BYTES), Some(1..=3));
            let told = std::mem::take(&mut *message.lock().unwrap_or_else(PoisonError::into_inner));
            if is_of_side_band && !told.is_empty() {
                write!(client, "{:04x}\u{2}", LENGTH_BYTES + 1 + told.len())?;
                client.write_all(&told)?;
            }
        }
        client.write_all(&packet)?;
        client.flush()?;
    }
    // Anything that is not a packet is copied unchanged.
    client.write_all(&packet)?;
    io::copy(git, client)?;
    client.flush()
}

/// Returns the length of a packet in bytes, including the four of the length itself, or 0 for a flush packet. Returns
/// `None` if these bytes begin neither a flush packet nor a packet with data.
fn packet_length(start: &[u8]) -> Option<usize> {
    if start.len() < LENGTH_BYTES || !start.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let length = usize::from_str_radix(str::from_utf8(start).ok()?, 16).ok()?;
    (length == 0 || length > LENGTH_BYTES).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::fd::OwnedFd,
        process::{Command, Stdio},
    };

    fn passed(bytes: &[u8], is_advertised: bool, told: &str) -> String {
        let (mut client, message) = (Vec::new(), Mutex::new(told.as_bytes().to_vec()));
        pass_on(&mut BufReader::with_capacity(3, bytes), &mut client, is_advertised, &message).unwrap();
        String::from_utf8(client).unwrap()
    }

    #[test]
    fn a_message_stands_between_two_packets_of_the_side_band_behind_the_list_of_refs() {
        let list = "000b\u{1}no band0000";
        let answer = "0008\u{1}abc0009\u{2}defg0000";
        let text = format!("{list}{answer}");
        assert_eq!(passed(text.as_bytes(), false, ""), text);
        assert_eq!(passed(answer.as_bytes(), true, "told"), format!("0009\u{2}told{answer}"));
    }

    /// Previously, a process that was told to end waited for ever for a client that did not read.
    #[test]
    fn a_client_that_does_not_read_keeps_nobody_from_ending() {
        let endless = Command::new("cat").arg("/dev/zero").stdout(Stdio::piped()).spawn();
        let mut endless = endless.unwrap();
        let (unread, client) = io::pipe().unwrap();
        let relay = Relay::start(endless.stdout.take().unwrap(), OwnedFd::from(client).into(), true).unwrap();
        let (tell, told) = mpsc::channel();
        let waiting = thread::spawn(move || {
            relay.finish_unless(|| true);
            tell.send(()).unwrap();
        });
        told.recv_timeout(Duration::from_secs(60)).expect("it does not wait");
        waiting.join().unwrap();
        endless.kill().unwrap();
        endless.wait().unwrap();
        drop(unread);
    }

    #[test]
    fn an_answer_without_a_side_band_and_what_is_no_packet_pass_as_they_are() {
        for text in ["000eunpack ok\n0000", "0008abcd", "hello", "0003x", "zzzz", "00", "0010short", ""] {
            assert_eq!(passed(text.as_bytes(), true, "told"), text);
        }
    }
}
