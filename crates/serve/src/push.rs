//! Receives pushes in threads of the server, as `refdb receive-pack` does in a process of its own.

use crate::{cpu::Cpu, gate::Turn, upkeep::Upkeep};
use refdb::{
    Environment, Repository,
    messages::{self, say},
};
use refdb_receive::{Call, Client, Failure, Maintenance, Reception};
use refdb_vfs::{Fs, interrupt};
use rustix::process::Signal;
use std::{
    ffi::OsString,
    io::{self, PipeReader, PipeWriter},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};
use tokio_util::task::TaskTracker;

/// The part of `receive-pack` that a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// The advertisement of the refs.
    Advertisement,
    /// The push itself, after an advertisement in an earlier request.
    Answer,
}

/// The task of a thread that receives a push or sends the advertisement for one.
pub(crate) struct Push {
    pub(crate) folder: PathBuf,
    /// The whole environment of hooks and programs.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Settings in the form `key=value` that take precedence over the repository's.
    pub(crate) settings: Vec<OsString>,
    pub(crate) wish: Wish,
    pub(crate) input: OwnedFd,
    pub(crate) output: PipeWriter,
    /// The turn under the limit on pushes, which is given back when this push has ended.
    pub(crate) turn: Turn,
    /// Counts the processor time of the thread, but not that of the programs that the thread starts.
    pub(crate) cpu: Cpu,
}

/// A push that waits for its thread.
#[derive(Debug)]
pub(crate) struct Waiting {
    has_begun: oneshot::Receiver<()>,
    /// Set by the thread when it begins, or by the request when it calls the push off, whichever is first.
    is_settled: Arc<AtomicBool>,
}

impl Waiting {
    /// Waits until the thread has begun. If that takes longer than `longest`, for example because the system allows no
    /// more threads, calls the push off and returns `false`; the push will never begin then.
    pub(crate) async fn begins(self, longest: Duration) -> bool {
        // The sender is dropped without a message only if the runtime shuts down, which ends the request as well.
        timeout(longest, self.has_begun).await.is_ok() || self.is_settled.swap(true, Ordering::AcqRel)
    }
}

/// The pushes that are being received, and the maintenance that follows them.
#[derive(Clone, Debug)]
pub(crate) struct Pushes {
    runtime: Handle,
    tracker: TaskTracker,
    upkeep: Upkeep,
}

/// The time that pushes have to end after they were told to.
const STOP: Duration = Duration::from_secs(2);

impl Pushes {
    /// Creates an empty set. Pushes are received in the blocking threads of `runtime`.
    pub(crate) fn new(runtime: Handle) -> Self {
        Pushes { tracker: TaskTracker::new(), upkeep: Upkeep::new(runtime.clone()), runtime }
    }

    /// Starts to receive a push in a thread of its own. A panic ends only this push.
    pub(crate) fn start(&self, push: Push) -> Waiting {
        let upkeep = Arc::new(self.upkeep.clone());
        self.spawn(move || push.receive(upkeep))
    }

    fn spawn(&self, receive: impl FnOnce() + Send + 'static) -> Waiting {
        let (begin, has_begun) = oneshot::channel();
        let is_settled = Arc::<AtomicBool>::default();
        let is_called_off = Arc::clone(&is_settled);
        let receive = move || {
            if is_called_off.swap(true, Ordering::AcqRel) {
                return;
            }
            // The request may have been dropped, because its client has left.
            let _ = begin.send(());
            receive();
        };
        drop(self.tracker.spawn_blocking_on(receive, &self.runtime));
        Waiting { has_begun, is_settled }
    }

    /// Waits until no push is being received, and then runs the maintenance that is due.
    pub(crate) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
        self.upkeep.ended().await;
    }

    /// Ends the pushes as SIGTERM ends `refdb receive-pack`: they release their locks and tell their programs to end. A
    /// push that is left to git without a screen and without limits on memory and processor time is not ended. Waits at
    /// most [`STOP`] for all pushes and for the maintenance that is due.
    pub(crate) async fn stop(&self) {
        interrupt::pretend(Signal::TERM.as_raw());
        // A push that takes longer ends as if the server were killed.
        let _ = timeout(STOP, self.ended()).await;
    }
}

impl Push {
    fn receive(self, maintenance: Arc<dyn Maintenance>) {
        let Push { folder, variables, settings, wish, input, output, turn, cpu } = self;
        let environment = Environment::exactly(variables, folder);
        let environment = settings.iter().fold(environment, |environment, setting| {
            environment.with_config(std::os::unix::ffi::OsStrExt::as_bytes(setting.as_os_str()).into())
        });
        if let Err(failure) = cpu.of(|| receive(environment, wish, maintenance, input, &output)) {
            tell(failure);
        }
        drop(turn);
        // The response, and with it the record of the request, ends with the output.
        drop(output);
    }
}

/// Does what `refdb receive-pack .` does in the directory of `environment`.
fn receive(
    environment: Environment,
    wish: Wish,
    maintenance: Arc<dyn Maintenance>,
    input: OwnedFd,
    output: &PipeWriter,
) -> Result<(), Failure> {
    let served = Repository::served_folder(&Fs::real(), &environment, Path::new("."));
    let served = served.map_err(refdb::Error::from)?;
    served.warnings.iter().for_each(|warning| say("warning: ", warning.as_bytes()));
    let mut call = Call::in_environment(&environment);
    (call.only_advertise, call.stateless) = (wish == Wish::Advertisement, wish == Wish::Answer);
    call.maintenance = Some(maintenance);
    let reception = Reception::open(environment.in_directory(served.folder), call)?;
    match reception.left_to_git()? {
        Some(mut git) => {
            let output = output.try_clone().map_err(|error| reception.not_run(&error))?;
            let git = git.stdin(input).stdout(output).status();
            git.map(drop).map_err(|error| reception.not_run(&error))
        }
        None => reception.run(Client { input: input.as_fd(), output: output.as_fd() }).map(drop),
    }
}

/// Writes the message of a failure, if it has one, to the server's standard error, as `refdb receive-pack` does.
fn tell(failure: Failure) {
    let lines = match failure {
        Failure::Fatal(message) => return say("fatal: ", &message),
        Failure::Store(refdb::Error::Config(error)) => error.report(),
        Failure::Store(refdb::Error::Repository(error)) => error.report(),
        Failure::Store(error) => return say("fatal: ", error.to_string().as_bytes()),
        Failure::BrokenPipe | Failure::Interrupted => return,
    };
    messages::write(lines.into_bytes());
}

/// Returns a pipe for the input of a push: the reading end, and the writing end, which never blocks.
pub(crate) fn input_pipe() -> io::Result<(OwnedFd, tokio::net::unix::pipe::Sender)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), tokio::net::unix::pipe::Sender::from_owned_fd(writer.into())?))
}

/// Returns a pipe for the output of a push: the reading end, which never blocks, and the writing end.
pub(crate) fn output_pipe() -> io::Result<(tokio::net::unix::pipe::Receiver, PipeWriter)> {
    let (reader, writer): (PipeReader, PipeWriter) = io::pipe()?;
    Ok((tokio::net::unix::pipe::Receiver::from_owned_fd(reader.into())?, writer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{gate::Gate, service::Service, settings::Limits};
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn a_panic_ends_only_its_own_push_and_gives_the_turn_back() {
        let gate = Gate::new(Limits { pushes: 1, ..Limits::default() });
        let pushes = Pushes::new(Handle::current());
        // More than may be received at a time.
        for _ in 0..5 {
            let turn = gate.program(Service::ReceivePack, "a", "r").await.unwrap();
            let (mut answer, output) = output_pipe().unwrap();
            pushes.spawn(move || {
                let _held = (turn, output);
                panic!("as a test of what a panic does");
            });
            assert_eq!(answer.read(&mut [0; 1]).await.unwrap(), 0, "the answer ends");
        }
        pushes.ended().await;
    }

    #[tokio::test]
    async fn a_push_that_was_called_off_never_begins_and_one_that_began_is_not_called_off() {
        let pushes = Pushes::new(Handle::current());
        let (mut began, mut called_off) = (0, 0);
        // Nearly any pauses produce both outcomes, but on a busy machine only after many pushes.
        for at in 0..200_000 {
            if at >= 2_000 && began > 0 && called_off > 0 {
                break;
            }
            let has_run = Arc::<AtomicBool>::default();
            let runs = Arc::clone(&has_run);
            let waiting = pushes.spawn(move || runs.store(true, Ordering::Relaxed));
            std::thread::sleep(Duration::from_micros(at % 50));
            let begins = waiting.begins(Duration::ZERO).await;
            *(if begins { &mut began } else { &mut called_off }) += 1;
            while !pushes.tracker.is_empty() {
                tokio::task::yield_now().await;
            }
            assert_eq!(has_run.load(Ordering::Relaxed), begins);
        }
        assert!(began > 0 && called_off > 0, "both happened: {began}, {called_off}");
    }
}
