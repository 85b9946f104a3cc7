//! Error responses: why a request is not served, and what the client is told.

use super::answer::{Body, answer};
use crate::{gate::Refused, record::Record};
use hyper::{
    Response, StatusCode,
    header::{self, HeaderValue},
};
use refdb::messages::say;
use std::{io, time::Duration};

/// Why a request is not served.
#[derive(Debug)]
pub(super) enum Failure {
    BadRequest(&'static str),
    /// Reading the body of the request failed.
    Unreadable(io::Error),
    NotFound(String),
    Forbidden(&'static str),
    /// The method is wrong. The value lists the right ones for the header `Allow`.
    Method(&'static str),
    UnsupportedType {
        wanted: String,
        got: String,
    },
    Refused(Refused),
    /// The server failed, or the repository cannot be read.
    Internal(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Internal(error)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Refused(refused)
    }
}

/// Returns the response to a request that is not served. As with `git http-backend`, the client learns little more than
/// the status; the reason goes to the access log.
pub(super) fn refuse(failure: Failure, mut record: Record) -> Response<Body> {
    let retry = |mut response: Response<Body>, after: Duration| {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        response
    };
    let plain = |status, record| answer(status, Body::bytes(Vec::new(), record));
    match failure {
        Failure::BadRequest(why) => {
            record.failed(&why);
            plain(StatusCode::BAD_REQUEST, record)
        }
        Failure::Unreadable(error) => {
            record.failed(&error);
            let status = match error.kind() {
                io::ErrorKind::TimedOut => StatusCode::REQUEST_TIMEOUT,
                io::ErrorKind::FileTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
                _ => StatusCode::BAD_REQUEST,
            };
            plain(status, record)
        }
        Failure::NotFound(why) => {
            record.failed(&why);
            plain(StatusCode::NOT_FOUND, record)
        }
        Failure::Forbidden(why) => {
            record.failed(&why);
            plain(StatusCode::FORBIDDEN, record)
        }
        Failure::Method(methods) => {
            record.failed(&format_args!("the method is none of {methods}"));
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, record);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
            response
        }
        Failure::UnsupportedType { wanted, got } => {
            let text = format!("Expected POST with Content-Type '{wanted}', but received '{got}' instead.\n");
            record.failed(&text.trim_end());
            answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, Body::bytes(text, record))
        }
        Failure::Refused(Refused::TooFast(wait)) => {
            record.failed(&"too many requests from this client");
            retry(plain(StatusCode::TOO_MANY_REQUESTS, record), wait + Duration::from_secs(1))
        }
        Failure::Refused(Refused::Busy) => {
            record.failed(&"too many requests in progress");
            retry(plain(StatusCode::SERVICE_UNAVAILABLE, record), Duration::from_secs(1))
        }
        Failure::Internal(error) => {
            record.failed(&error);
            say("error: ", error.to_string().as_bytes());
            plain(StatusCode::INTERNAL_SERVER_ERROR, record)
        }
    }
}
