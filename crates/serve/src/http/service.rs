//! Serves HTTP requests: checks them, finds the repository, and lets the server or git respond.

use super::{
    answer::{Body, Source, answer, at_disk, of_type},
    begin::{Room, read_more, read_request, read_wants},
    failure::{Failure, refuse},
    route::Route,
};
use crate::{
    gate::{Access, Authorizer, Decision, Gate, Grant, Refused, Turn},
    inflow::Inflow,
    program::{Git, Place, Running},
    record::{Record, Records},
    repository::{Facts, Repositories, Served},
    roots::{NotFound, Roots, shown},
    service::Service,
    settings::Settings,
    upload::{
        capabilities::Capabilities,
        ls_refs::Progress,
        rows::{Rows, Style},
        wants::{Tips, Wants, not_visible_tips},
    },
};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
};
use refdb::messages::say;
use refdb_receive::wire::{Version, pkt};
use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

/// The state that all requests share. A reload replaces it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) roots: Roots,
    pub(crate) gate: Gate,
    pub(crate) authorizer: Option<Authorizer>,
    pub(crate) git: Git,
    pub(crate) repositories: Arc<Repositories>,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) records: Arc<Records>,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The IP address from which a TCP connection comes; empty on a Unix socket.
    pub(crate) address: String,
    /// Whether the connection uses a Unix socket for HTTP, whose clients are trusted as proxies.
    pub(crate) is_proxy: bool,
}

/// The user and the address from which a request comes.
#[derive(Debug)]
struct Client {
    user: Option<String>,
    address: String,
}

impl Client {
    /// Returns the name under which the limits count this client.
    fn name(&self) -> String {
        self.user.as_ref().map_or_else(|| self.address.clone(), |user| format!("user {user}"))
    }
}

/// The header in which a proxy names the user.
const USER: &str = "x-remote-user";
/// The header in which a proxy names the client's address.
const ADDRESS: &str = "x-remote-addr";
/// The header in which a proxy on a TCP connection sends `serve.proxySecret`.
const SECRET: &str = "x-refdb-secret";

/// A request that passed all checks, with what is needed to respond.
struct Job {
    service: Service,
    client: Client,
    grant: Grant,
    served: Arc<Served>,
    facts: Arc<Facts>,
    version: Version,
    protocol: Option<HeaderValue>,
}

/// A successful response, before it has headers.
struct Outcome {
    content_type: String,
    begin: Vec<u8>,
    source: Source,
    is_remote: bool,
    /// The room of the request, if the response still needs parts of the request.
    room: Room,
}

impl Server {
    /// Responds to a request. A failure becomes an HTTP error, unless it occurs while the body is sent, or git or the
    /// reception of a push fails after it was given a request: the body then shows the failure or ends early.
    pub(crate) async fn handle(&self, peer: &Peer, request: Request<Incoming>) -> Response<Body> {
        let (mut record, mut turns) = (self.records.begin(), Vec::new());
        let is_head = request.method() == Method::HEAD;
        let cpu = record.cpu.clone();
        match cpu.of_future(self.serve(peer, request, &mut record, &mut turns)).await {
            Ok(Outcome { content_type, begin, source, is_remote, room }) => {
                let is_over = is_head;
                let body = Body { begin: begin.into(), source, is_remote, record, is_over, turns, room };
                of_type(answer(StatusCode::OK, body), &content_type)
            }
            Err(failure) => refuse(failure, record),
        }
    }

    /// Returns who sent the request. The headers of a proxy count only on the proxy's socket or with its secret.
    fn client(&self, peer: &Peer, headers: &HeaderMap) -> Result<Client, Failure> {
        let knows_secret = match &self.settings.proxy_secret {
            Some(secret) => single(headers, SECRET)?.is_some_and(|given| is_equal(given.as_bytes(), secret)),
            None => false,
        };
        if !peer.is_proxy && !knows_secret {
            return Ok(Client { user: None, address: peer.address.clone() });
        }
        let text = |name| -> Result<Option<String>, Failure> {
            let value = single(headers, name)?.map(|value| str::from_utf8(value.as_bytes())).transpose();
            let value = value.map_err(|_| Failure::BadRequest("a header of the proxy is not UTF-8"))?;
            if value.is_some_and(|value| value.contains(char::is_control)) {
                return Err(Failure::BadRequest("a header of the proxy has a control character"));
            }
            Ok(value.filter(|value| !value.is_empty()).map(str::to_owned))
        };
        let address = text(ADDRESS)?.unwrap_or_else(|| peer.address.clone());
        Ok(Client { user: text(USER)?, address })
    }

    async fn serve(
        &self,
        peer: &Peer,
        request: Request<Incoming>,
        record: &mut Record,
        turns: &mut Vec<Turn>,
    ) -> Result<Outcome, Failure> {
        let client = self.client(peer, request.headers())?;
        record.client(client.user.as_deref(), &client.address);
        turns.extend(self.gate.enter(&client.name())?);
        let (parts, body) = request.into_parts();
        let (path, service, is_advertisement) = match Route::of(&parts.method, parts.uri.path(), parts.uri.query()) {
            Route::Advertise { path, service } => (path, Some(service), true),
            Route::Answer { path, service } => (path, Some(service), false),
            Route::Disabled { path } => (path, None, false),
            Route::Unknown => return Err(Failure::NotFound("not supported".into())),
            Route::Method(methods) => return Err(Failure::Method(methods)),
        };
        let folder = self.find(path)?;
        let repository = shown(&folder);
        record.repository(&repository);
        let access = if service == Some(Service::ReceivePack) { Access::Write } else { Access::Read };
        // Until the authorizer has allowed the request, the response depends on whether the repository is served, and
        // on nothing else about the repository or about other requests to it.
        let grant = self.authorize(&client, &folder, access).await?;
        turns.push(self.gate.enter_repository(&repository)?);
        let (served, facts) = self.open(&folder)?;
        let service = service.filter(|service| is_enabled(*service, &facts, &client));
        let service = service.ok_or(Failure::Forbidden("the service is not enabled"))?;
        if !is_advertisement {
            check_type(&parts.headers, &format!("application/x-git-{}-request", service.name()))?;
        }
        let protocol = parts.headers.get("git-protocol").cloned();
        let version = protocol.as_ref().map_or(Version::V0, |list| Version::of(list.as_bytes()));
        let job = Job { service, client, grant, served, facts, version, protocol };
        if is_advertisement {
            return self.advertise(job, record).await;
        }
        let limits = &self.settings.limits;
        let bytes_max = (service == Service::UploadPack).then_some(limits.request_bytes);
        let inflow = Box::new(Inflow::new(&parts.headers, body, limits, bytes_max));
        self.answer(job, inflow, record).await
    }

    /// Returns the folder of the repository that a path names.
    fn find(&self, path: &str) -> Result<PathBuf, Failure> {
        let not_found = |why: NotFound| match why {
            NotFound::Unknown(why) => Failure::Internal(io::Error::other(why)),
            why => Failure::NotFound(format!("{why:?}")),
        };
        at_disk(self.roots.are_remote(), || self.roots.find(path)).map_err(not_found)
    }

    /// Returns the repository in this folder, and its current facts.
    fn open(&self, folder: &Path) -> Result<(Arc<Served>, Arc<Facts>), Failure> {
        let served = match self.repositories.known(folder) {
            Some(served) => served,
            None => at_disk(true, || self.repositories.open(folder))?,
        };
        let facts = at_disk(served.is_remote(), || served.facts())?;
        Ok((served, facts))
    }

    async fn authorize(&self, client: &Client, folder: &Path, access: Access) -> Result<Grant, Failure> {
        let Some(authorizer) = &self.authorizer else { return Ok(Grant::default()) };
        let Some(repository) = folder.to_str() else {
            return Err(Failure::NotFound("its path is not UTF-8, so the authorizer cannot be asked".into()));
        };
        let (decision, error) = authorizer.ask(client.user.as_deref(), &client.address, repository, access).await;
        if let Some(error) = error {
            say("error: ", error.to_string().as_bytes());
        }
        match decision {
            Decision::Allowed(grant) => Ok(grant),
            Decision::Denied => Err(Failure::Forbidden("the authorizer denied it")),
            Decision::Missing => Err(Failure::NotFound("the authorizer hides it".into())),
        }
    }

    /// Responds to discovery: with the refs, or in version 2 of a fetch with the capabilities.
    async fn advertise(&self, job: Job, record: &mut Record) -> Result<Outcome, Failure> {
        record.operation("discovery", job.version.number());
        let mut begin = Vec::new();
        if job.version != Version::V2 {
            pkt::line(&[b"# service=git-", job.service.name().as_bytes(), b"\n"], &mut begin);
            pkt::flush(&mut begin);
        }
        let Job { served, facts, .. } = &job;
        let may_be_ours = job.service == Service::UploadPack && job.grant.namespace.is_none();
        let is_ours = may_be_ours && !at_disk(served.is_remote(), || served.has_grafts(facts));
        let source = if !is_ours {
            let turn = self.turn(&job, record).await?;
            let running = self.git.advertise(job.service, &job.place(), turn, record.cpu.clone())?;
            let mut running = self.begun(running).await?;
            begin.extend(running.first_bytes().await?);
            Source::Program(Box::new(running))
        } else if job.version == Version::V2 {
            begin = self.capabilities.version_2(&self.git, served.folder(), facts).await?;
            Source::Nothing
        } else {
            let offer = self.capabilities.offer(job.version, &self.git, served.folder(), facts).await?;
            job.list(Style::Advertisement(offer), &mut begin, record)?
        };
        let content_type = format!("application/x-git-{}-advertisement", job.service.name());
        Ok(Outcome { content_type, begin, source, is_remote: job.served.is_remote(), room: Room::default() })
    }

    /// Responds to a request to a service. The server itself answers `ls-refs`, unless the client is confined to a
    /// namespace, or the request has a part that the server leaves to git, is cut short, or is too long, alone or
    /// together with others. `git upload-pack` serves all else of fetches, and a thread of the server receives pushes.
    async fn answer(&self, job: Job, mut inflow: Box<Inflow>, record: &mut Record) -> Result<Outcome, Failure> {
        let is_fetch = job.service == Service::UploadPack;
        record.operation(if is_fetch { "fetch" } else { "push" }, job.version.number());
        let content_type = format!("application/x-git-{}-result", job.service.name());
        let is_remote = job.served.is_remote();
        let mut place = if is_fetch { job.place() } else { with_committer(job.place(), &job) };
        let (mut begin, mut room) = (Vec::new(), Room::default());
        if is_fetch && job.grant.namespace.is_none() {
            if job.version == Version::V2 {
                let (progress, bytes) =
                    read_request(&job.facts, &mut inflow, &mut room).await.map_err(Failure::Unreadable)?;
                if let Progress::Complete(wanted) = progress
                    && job.facts.settings.are_valid_for(wanted.unborn)
                {
                    record.operation("ls-refs", job.version.number());
                    let source = job.list(Style::LsRefs(wanted), &mut begin, record)?;
                    return Ok(Outcome { content_type, begin, source, is_remote, room });
                }
                begin = bytes;
            } else if !job.facts.settings.has_pack_hook {
                let (wants, bytes) =
                    read_wants(&job.facts, &mut inflow, &mut room).await.map_err(Failure::Unreadable)?;
                begin = bytes;
                if job.has_tips(&wants) {
                    place = place.with_checked_wants();
                }
            }
        }
        if is_fetch {
            read_more(&mut begin, &mut inflow).await.map_err(Failure::Unreadable)?;
        }
        let turn = self.turn(&job, record).await?;
        let running = self.git.answer(job.service, &place, begin, inflow, turn, record.cpu.clone())?;
        let mut running = self.begun(running).await?;
        let begin = running.request_read().await.map_err(Failure::Unreadable)?;
        let source = Source::Program(Box::new(running));
        Ok(Outcome { content_type, begin, source, is_remote, room: Room::default() })
    }

    /// Waits until a service has begun, for `serve.queueSeconds` at most.
    async fn begun(&self, mut running: Running) -> Result<Running, Failure> {
        if running.begins(self.settings.limits.queue).await { Ok(running) } else { Err(Refused::Busy.into()) }
    }

    /// Waits, as [`Gate::program`] does, until this fetch or push may run, and records how long that took.
    async fn turn(&self, job: &Job, record: &mut Record) -> Result<Turn, Failure> {
        let waits = Instant::now();
        let turn = self.gate.program(job.service, &job.client.name(), &shown(job.served.folder())).await;
        record.queued(waits.elapsed());
        Ok(turn?)
    }
}

impl Job {
    /// Appends the first piece of a list of refs to `begin`, and returns the source of the others. The status of the
    /// response is not sent yet, so that it reports a failure up to there.
    fn list(&self, style: Style, begin: &mut Vec<u8>, record: &mut Record) -> io::Result<Source> {
        let hidden = self.facts.settings.hiding(&self.grant.hidden);
        at_disk(self.served.is_remote(), || {
            let mut rows = Rows::new(&self.served, Arc::clone(&self.facts), hidden, style)?;
            begin.extend_from_slice(rows.next_piece()?.as_ref());
            record.refs(rows.refs);
            Ok(if rows.has_ended() { Source::Nothing } else { Source::Refs(Box::new(rows)) })
        })
    }

    /// Returns whether git would certainly accept all of these wants. `false` proves nothing, and is also the result of
    /// an error, because git can still make the check.
    fn has_tips(&self, wants: &Wants) -> bool {
        let Wants::Complete(wants) = wants else { return false };
        let hidden = self.facts.settings.hiding(&self.grant.hidden);
        let others = at_disk(self.served.is_remote(), || {
            not_visible_tips(&self.served, &self.facts, &hidden, wants, Tips::OrTagged)
        });
        others.is_ok_and(|others| others.is_empty())
    }

    /// Returns the repository, the environment and the settings for git or a push: those variables of
    /// `git http-backend` that git reads or that name the client, and what the authorizer attached to the request.
    /// [`with_committer`] adds the committer.
    fn place(&self) -> Place {
        let address = &self.client.address[..];
        let mut place = Place::new(self.served.folder()).with("GIT_HTTP_EXPORT_ALL", "1").with("REMOTE_ADDR", address);
        if let Some(user) = &self.client.user {
            place = place.with("REMOTE_USER", &user[..]);
        }
        if let Some(protocol) = &self.protocol {
            place = place.with("GIT_PROTOCOL", OsString::from_vec(protocol.as_bytes().to_vec()));
        }
        if let Some(namespace) = &self.grant.namespace {
            place = place.with("GIT_NAMESPACE", &namespace[..]);
        }
        place.hiding(&self.grant.hidden).with_all(&self.grant.variables)
    }
}

fn is_enabled(service: Service, facts: &Facts, client: &Client) -> bool {
    match service {
        Service::UploadPack => facts.settings.http_upload.unwrap_or(true),
        Service::ReceivePack => facts.settings.http_receive.unwrap_or(client.user.is_some()),
    }
}

fn check_type(headers: &HeaderMap, wanted: &str) -> Result<(), Failure> {
    let got = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if got == wanted.as_bytes() {
        return Ok(());
    }
    Err(Failure::UnsupportedType { wanted: wanted.to_owned(), got: String::from_utf8_lossy(got).into_owned() })
}

/// Sets the committer of reflog entries as `git http-backend` does, unless the authorizer or the server's own
/// environment names one.
fn with_committer(place: Place, job: &Job) -> Place {
    let Job { client, grant, .. } = job;
    let user = client.user.as_deref().unwrap_or("anonymous");
    let address = if client.address.is_empty() { "(none)" } else { &client.address };
    let values = [("GIT_COMMITTER_NAME", user.to_owned()), ("GIT_COMMITTER_EMAIL", format!("{user}@http.{address}"))];
    values
        .into_iter()
        .filter(|(name, _)| std::env::var_os(name).is_none() && grant.variables.iter().all(|(other, _)| other != name))
        .fold(place, |place, (name, value)| place.with(name, value))
}

/// Returns the value of a header, or fails if the header occurs more than once.
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h HeaderValue>, Failure> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Failure::BadRequest("a header of the proxy occurs twice"));
    }
    Ok(first)
}

/// Compares secrets. The time does not depend on where two of the same length differ, so that no prefix can be guessed
/// by timing.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
