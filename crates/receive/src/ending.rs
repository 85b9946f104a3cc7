//! Notices the end of a program without waiting for it, so that its process id stays its own.

use rustix::{
    event::Timespec,
    io::retry_on_intr,
    process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid},
};
use std::{io, os::fd::OwnedFd, time::Duration};

/// The end of a child of this process.
#[derive(Debug)]
pub(crate) struct Ending {
    pid: Pid,
    fd: Option<OwnedFd>,
}

/// The interval between looks at a program whose end wakes nobody.
const LOOK: Duration = Duration::from_millis(5);

impl Ending {
    pub(crate) fn of(pid: Pid) -> Self {
        // Some sandboxes refuse `pidfd_open`.
        Ending { pid, fd: pidfd_open(pid, PidfdFlags::empty()).ok() }
    }

    /// Returns a descriptor that poll(2) reports as readable once the program has ended; `None` if there is none, so
    /// that [`pause`](Self::pause) is short.
    pub(crate) fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    /// Returns how long to wait, less than a second and at most this long, before the next look at the program.
    pub(crate) fn pause(&self, longest: Duration) -> Timespec {
        let pause = if self.fd.is_some() { longest } else { longest.min(LOOK) };
        Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() }
    }

    /// Returns whether the program has ended. It must not have been waited for.
    pub(crate) fn has_come(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(retry_on_intr(|| waitid(WaitId::Pid(self.pid), options))?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::process::{Command, Stdio};

    #[test]
    fn an_end_is_noticed_with_and_without_a_descriptor() {
        for has_fd in [true, false] {
            let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let mut ending = Ending::of(Pid::from_child(&cat));
            ending.fd = ending.fd.filter(|_| has_fd);
            assert!(!ending.has_come().unwrap());
            drop(cat.stdin.take());
            while !ending.has_come().unwrap() {
                let mut ends: Vec<_> = ending.fd().iter().map(|fd| PollFd::new(*fd, PollFlags::IN)).collect();
                poll(&mut ends, Some(&ending.pause(Duration::from_millis(500)))).unwrap();
            }
            assert!(cat.wait().unwrap().success(), "it was not waited for before");
        }
    }
}
