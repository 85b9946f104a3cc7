//! `git http-backend`, run for each request as a web server does.

use crate::{Options, repository::Repository};
use anyhow::{Context, Result};
use std::{
    io::Write,
    process::{Command, Stdio},
};

/// A request as CGI describes it.
pub(crate) struct Request<'r> {
    pub(crate) path: &'r str,
    pub(crate) query: &'r str,
    pub(crate) version: u8,
    pub(crate) body: &'r [u8],
}

/// Answers a request, and returns the answer with its headers.
pub(crate) fn run(options: &Options, repository: &Repository, request: &Request<'_>) -> Result<Vec<u8>> {
    let Request { path, query, version, body } = request;
    let mut command = Command::new(&options.git);
    command.arg("http-backend").env("GIT_HTTP_EXPORT_ALL", "1").env("QUERY_STRING", query);
    command.env("GIT_PROJECT_ROOT", repository.path.parent().context("a repository is in a folder")?);
    command.env("PATH_INFO", format!("/{}/{path}", repository.name()));
    command.env("REQUEST_METHOD", if body.is_empty() { "GET" } else { "POST" });
    command.env("CONTENT_TYPE", format!("application/x-{path}-request"));
    command.env("CONTENT_LENGTH", body.len().to_string()).env("GIT_PROTOCOL", format!("version={version}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    child.stdin.take().context("it has no input")?.write_all(body)?;
    Ok(child.wait_with_output()?.stdout)
}
