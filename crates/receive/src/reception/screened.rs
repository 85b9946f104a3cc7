//! Delegates a push before the refs are advertised. Git receives a complete request only after refdb has read it, and
//! only if the repository can store the refnames in it.

use super::{Client, Failure, Reception, exit_code, replay, supervise::Supervised};
use crate::{Screen, Screened, ServeError, turn_away};
use std::process::ChildStdin;

/// Maximum number of bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// How reading the request ended.
enum End {
    /// The request is complete.
    Complete,
    /// The client closed its end before the request was complete.
    Client,
    /// Git closed its input before the request was complete, which means that git has failed.
    Git,
}

impl Reception {
    /// Reads the request, and either passes the push on to git, whose input must be a pipe, or refuses it.
    pub(super) fn pass_on(&self, mut git: Supervised, mut screen: Screen, client: Client<'_>) -> Result<u8, Failure> {
        let Some(pipe) = git.input() else { return git.wait() };
        let heard = match read(&pipe, &mut git, &mut screen, client) {
            Ok(End::Complete) => match screen.finish(&self.store) {
                Ok(Screened::Passed(heard)) => heard,
                Ok(Screened::Refused(push)) => {
                    git.stop();
                    let Client { input, output } = client;
                    return exit_code(turn_away(&self.store, &self.settings, &self.call, push, input, output));
                }
                Err(error) => return refuse(git, error),
            },
            // Git itself says that the request is incomplete.
            Ok(End::Client) => screen.into_heard(),
            Ok(End::Git) => return git.wait(),
            Err(ServeError::Io(error)) => {
                git.stop();
                return Err(replay::not_passed_on(&error));
            }
            Err(error) => return refuse(git, error),
        };
        replay::finish(pipe, &heard, git, client)
    }
}

fn refuse(git: Supervised, error: ServeError) -> Result<u8, Failure> {
    git.stop();
    exit_code(Err(error))
}

/// Reads the request, and no byte after it.
fn read(pipe: &ChildStdin, git: &mut Supervised, screen: &mut Screen, client: Client<'_>) -> Result<End, ServeError> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let wanted = screen.wants().min(PIECE_BYTES);
        if wanted == 0 {
            return Ok(End::Complete);
        }
        match replay::read(pipe, git, client, &mut buffer[..wanted])? {
            None => return Ok(End::Git),
            Some(0) => return Ok(End::Client),
            Some(count) => screen.take(&buffer[..count])?,
        }
    }
}
