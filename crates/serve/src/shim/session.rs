//! Serves the client of a shim: sends the advertisement, answers `ls-refs`, and checks the wants of a fetch.

use super::{
    message::{HandOver, Mode, Reply, Request},
    passed::{Direction, End},
};
use crate::{
    http::{Server, at_disk},
    record::{Record, STATUS_LEFT},
    repository::{Facts, Served},
    roots::shown,
    upload::{
        READ_BYTES, REQUEST_BYTES_MAX,
        ls_refs::{LsRefs, Progress, RequestReader},
        rows::{Rows, Style},
        wants::{Tips, Wants, WantsReader, not_visible_tips},
    },
};
use arc_swap::ArcSwap;
use refdb::{ObjectId, messages::say};
use refdb_receive::wire::Version;
use std::{future::poll_fn, io, os::fd::OwnedFd, sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// The client of a shim, while the server works for it.
pub(super) struct Session {
    server: Arc<ArcSwap<Server>>,
    served: Arc<Served>,
    request: Request,
    /// `None` if the server reads nothing from the client.
    input: Option<End>,
    output: End,
    version: Version,
    /// How long the client may send nothing, or take to read a piece. `None` if there is no limit.
    idle: Option<Duration>,
    /// Becomes `true` when the server shuts down, so that git has to take over.
    is_ending: watch::Receiver<bool>,
}

/// Why the work for a client ends early.
#[derive(Debug)]
enum Stop {
    /// The client has closed its end.
    Left,
    /// `--timeout` has passed.
    Idle,
    Failed(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Stop::Left,
            _ => Stop::Failed(error),
        }
    }
}

/// The exit code that a shell reports for a git that SIGPIPE has ended.
const LEFT: u8 = 141;
/// The exit code that a shell reports for a git that SIGALRM has ended because of `--timeout`.
const IDLE: u8 = 142;

/// The exit code that git uses after `fatal:`.
const FATAL: u8 = 128;

const DONE: Reply = Reply::Ended { code: 0, error: String::new() };

impl Session {
    /// Takes over the input and the output of a client. Fails if one of them that is used is neither a socket nor a
    /// pipe that can be opened again.
    pub(super) fn new(
        server: Arc<ArcSwap<Server>>,
        served: Arc<Served>,
        request: Request,
        [input, output]: [OwnedFd; 2],
        is_ending: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let reads = request.mode != Mode::Advertisement;
        let input = reads.then(|| End::new(input, Direction::In)).transpose()?;
        let (output, version) = (End::new(output, Direction::Out)?, Version::of(&request.protocol));
        // Like git, this applies `--timeout` only in protocol versions 0 and 1.
        let is_limited = request.timeout_seconds > 0 && version != Version::V2;
        let idle = is_limited.then(|| Duration::from_secs(request.timeout_seconds.into()));
        Ok(Session { server, served, request, input, output, version, idle, is_ending })
    }

    /// Serves the client until it is done or git is needed, and returns the reply for the shim.
    pub(super) async fn run(mut self) -> Reply {
        match self.work().await {
            Ok(reply) => reply,
            Err(Stop::Left) => Reply::Ended { code: LEFT, error: String::new() },
            Err(Stop::Idle) => Reply::Ended { code: IDLE, error: String::new() },
            Err(Stop::Failed(error)) => {
                say("error: ", format!("{}: {error}", self.served.folder().display()).as_bytes());
                Reply::Ended { code: FATAL, error: format!("fatal: {error}") }
            }
        }
    }

    async fn work(&mut self) -> Result<Reply, Stop> {
        let advertised = match self.request.mode {
            Mode::Answer => None,
            Mode::Advertisement | Mode::Whole => self.advertise().await?,
        };
        match (self.request.mode, self.version) {
            (Mode::Advertisement, _) => Ok(DONE),
            (_, Version::V2) => self.answer_lists().await,
            _ => self.look_at_fetch(advertised).await,
        }
    }

    /// Sends the advertisement. Returns the refs that were sent, or `None` in version 2, which sends only capabilities.
    async fn advertise(&mut self) -> Result<Option<Rows>, Stop> {
        let mut record = self.record("discovery");
        let cpu = record.cpu.clone();
        let advertised = cpu.of_future(self.send_advertisement(&mut record)).await;
        conclude(record, advertised)
    }

    async fn send_advertisement(&mut self, record: &mut Record) -> Result<Option<Rows>, Stop> {
        let (server, facts) = (self.server.load_full(), self.facts()?);
        let folder = self.served.folder();
        if self.version == Version::V2 {
            let capabilities = server.capabilities.version_2(&server.git, folder, &facts).await?;
            self.send(&capabilities, record).await?;
            return Ok(None);
        }
        let mut offer = server.capabilities.offer(self.version, &server.git, folder, &facts).await?;
        if self.request.mode == Mode::Whole {
            offer.is_for_whole_connection();
        }
        let mut rows = self.rows(&facts, Style::Advertisement(offer))?;
        self.send_rows(&mut rows, record).await?;
        Ok(Some(rows))
    }

    /// Answers `ls-refs` requests of version 2, only one in [`Mode::Answer`], until the client is done, or until git
    /// has to take over because the server leaves a request to it, a request is cut short or too large, the server
    /// shuts down, or the repository has become shallow or has got grafts.
    async fn answer_lists(&mut self) -> Result<Reply, Stop> {
        let mut rest = Vec::new();
        loop {
            let facts = self.facts()?;
            let mut reader = RequestReader::new(facts.hash);
            let mut progress = reader.add(&rest);
            while progress == Progress::Incomplete && reader.bytes().len() <= REQUEST_BYTES_MAX {
                match self.read().await? {
                    Some(bytes) if !bytes.is_empty() => progress = reader.add(&bytes),
                    Some(_) if reader.bytes().is_empty() => return Ok(DONE),
                    _ => break,
                }
            }
            let Progress::Complete(wanted) = progress else {
                // A client that is done sends a flush packet alone.
                let is_end = reader.bytes() == b"0000";
                return Ok(if is_end { DONE } else { self.hand_over(reader.into_bytes(), false) });
            };
            let is_for_git = !facts.settings.are_valid_for(wanted.unborn)
                || at_disk(self.served.is_remote(), || self.served.has_grafts(&facts));
            if is_for_git {
                return Ok(self.hand_over(reader.into_bytes(), false));
            }
            let mut record = self.record("ls-refs");
            let cpu = record.cpu.clone();
            let listed = cpu.of_future(self.send_list(&facts, wanted, &mut record)).await;
            conclude(record, listed)?;
            if self.request.mode == Mode::Answer {
                return Ok(DONE);
            }
            rest = reader.into_rest();
        }
    }

    async fn send_list(&mut self, facts: &Arc<Facts>, wanted: LsRefs, record: &mut Record) -> Result<(), Stop> {
        let mut rows = self.rows(facts, Style::LsRefs(wanted))?;
        self.send_rows(&mut rows, record).await
    }

    /// Reads the wants of a fetch of version 0 or 1, and checks whether the client may have them, so that git need not.
    /// `advertised` is the advertisement that this session sent, if it sent one.
    async fn look_at_fetch(&mut self, advertised: Option<Rows>) -> Result<Reply, Stop> {
        let facts = self.facts()?;
        let (mut reader, mut wants) = (WantsReader::new(facts.hash), Wants::Incomplete);
        while wants == Wants::Incomplete && reader.bytes().len() <= REQUEST_BYTES_MAX {
            match self.read().await? {
                Some(bytes) if !bytes.is_empty() => wants = reader.add(&bytes),
                _ => break,
            }
        }
        let is_checked = match &wants {
            Wants::Complete(wants) if wants.is_empty() && reader.bytes() == b"0000" => return Ok(DONE),
            // If there is a pack-objects hook, git makes the check, because the hook would see the options by which git
            // skips it.
            Wants::Complete(wants) if !facts.settings.has_pack_hook => self.may_have(&facts, wants, advertised),
            _ => false,
        };
        Ok(self.hand_over(reader.into_bytes(), is_checked))
    }

    /// Returns whether git would certainly send the client all of these objects. `false` proves nothing, and is also
    /// the result of an error, because git can still make the check.
    fn may_have(&self, facts: &Facts, wants: &[ObjectId], advertised: Option<Rows>) -> bool {
        let checked = at_disk(self.served.is_remote(), || {
            // In a conversation over one connection, git by default accepts only wants that it has advertised.
            let tips = if advertised.is_some() { Tips::Themselves } else { Tips::OrTagged };
            let others = not_visible_tips(&self.served, facts, &facts.settings.hidden, wants, tips)?;
            match advertised {
                // A ref may have changed since it was advertised.
                Some(mut rows) if !others.is_empty() => rows.have_shown(&others),
                _ => Ok(others.is_empty()),
            }
        });
        checked.unwrap_or(false)
    }

    fn hand_over(&self, input: Vec<u8>, is_checked: bool) -> Reply {
        let is_advertised = self.request.mode == Mode::Whole;
        Reply::Continue(HandOver { is_advertised, is_checked, input })
    }

    fn facts(&self) -> io::Result<Arc<Facts>> {
        at_disk(self.served.is_remote(), || self.served.facts())
    }

    fn rows(&self, facts: &Arc<Facts>, style: Style) -> io::Result<Rows> {
        let hidden = facts.settings.hidden.clone();
        at_disk(self.served.is_remote(), || Rows::new(&self.served, Arc::clone(facts), hidden, style))
    }

    fn record(&self, operation: &'static str) -> Record {
        let mut record = self.server.load().records.begin();
        let user = Some(&self.request.user[..]).filter(|user| !user.is_empty());
        record.client(user, &self.request.address);
        record.repository(&shown(self.served.folder()));
        record.operation(operation, self.version.number());
        record
    }

    async fn send_rows(&self, rows: &mut Rows, record: &mut Record) -> Result<(), Stop> {
        while !rows.has_ended() {
            let turn = poll_fn(|context| rows.poll_turn(context)).await;
            let piece = at_disk(self.served.is_remote(), || rows.next_piece())?;
            drop(turn);
            record.refs(rows.refs);
            if piece.as_ref().is_empty() {
                // None of the refs that were read for this piece is shown. Let other requests run before more refs are
                // read.
                tokio::task::yield_now().await;
            }
            self.send(piece.as_ref(), record).await?;
        }
        Ok(())
    }

    async fn send(&self, bytes: &[u8], record: &mut Record) -> Result<(), Stop> {
        self.within_time(self.output.write_all(bytes)).await?;
        record.sent(bytes.len());
        Ok(())
    }

    /// Reads some bytes, none at the end. Returns `None` if the server shuts down.
    async fn read(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        let Some(input) = &self.input else { return Ok(Some(Vec::new())) };
        let mut buffer = vec![0; READ_BYTES];
        let mut is_ending = self.is_ending.clone();
        tokio::select! {
            biased;
            _ = is_ending.wait_for(|is_ending| *is_ending) => Ok(None),
            count = self.within_time(input.read(&mut buffer)) => {
                buffer.truncate(count?);
                Ok(Some(buffer))
            }
        }
    }

    async fn within_time<T>(&self, step: impl Future<Output = io::Result<T>>) -> Result<T, Stop> {
        match self.idle {
            None => Ok(step.await?),
            Some(idle) => Ok(timeout(idle, step).await.map_err(|_| Stop::Idle)??),
        }
    }
}

/// Records how a request ended, with the status that a request over HTTP would have.
fn conclude<T>(mut record: Record, ended: Result<T, Stop>) -> Result<T, Stop> {
    if let Err(Stop::Failed(error)) = &ended {
        record.failed(error);
    }
    record.status(match &ended {
        Ok(_) => 200,
        Err(Stop::Left) => STATUS_LEFT,
        Err(Stop::Idle) => 408,
        Err(Stop::Failed(_)) => 500,
    });
    ended
}
