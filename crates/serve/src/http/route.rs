//! Finds out what a request asks for from its method, path and query.

use crate::service::Service;
use hyper::Method;
use percent_encoding::percent_decode_str;

/// What a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Route<'r> {
    /// `GET` or `HEAD` of `PATH/info/refs?service=...`: the list of refs, or the capabilities of version 2.
    Advertise { path: &'r str, service: Service },
    /// `POST PATH/git-upload-pack` or `PATH/git-receive-pack`: a request to that service.
    Answer { path: &'r str, service: Service },
    /// A request that `git http-backend` can serve and this server does not, or `info/refs` without a known service.
    /// The response is 404 if the repository is not served or the authorizer hides it, and 403 otherwise, unless the
    /// request is refused or fails before that is known.
    Disabled { path: &'r str },
    /// The path does not end like any request of git's HTTP protocols.
    Unknown,
    /// The method is wrong. The value lists the right ones.
    Method(&'static str),
}

/// The methods of requests that only read, for the header `Allow`.
const READING: &str = "GET, HEAD";

/// The method of requests to a service, for the header `Allow`.
const SERVING: &str = "POST";

impl<'r> Route<'r> {
    /// Returns the route of a request.
    pub(super) fn of(method: &Method, path: &'r str, query: Option<&str>) -> Self {
        let is_reading = *method == Method::GET || *method == Method::HEAD;
        for (ending, service) in [
            ("/git-upload-pack", Some(Service::UploadPack)),
            ("/git-receive-pack", Some(Service::ReceivePack)),
            ("/git-upload-archive", None),
        ] {
            let Some(path) = path.strip_suffix(ending) else { continue };
            return match service {
                _ if *method != Method::POST => Route::Method(SERVING),
                Some(service) => Route::Answer { path, service },
                None => Route::Disabled { path },
            };
        }
        let advertised = path.strip_suffix("/info/refs");
        let Some(below) = advertised.or_else(|| dumb(path)) else { return Route::Unknown };
        if !is_reading {
            return Route::Method(READING);
        }
        match advertised.and_then(|path| Some((path, service_of(query?)?))) {
            Some((path, service)) => Route::Advertise { path, service },
            None => Route::Disabled { path: below },
        }
    }
}

/// Returns the service that a query names.
fn service_of(query: &str) -> Option<Service> {
    let decoded = |text| percent_decode_str(text).decode_utf8().ok();
    let (mut rest, mut name) = (query, None);
    while !rest.is_empty() {
        // As in git, the item after a key without a value is its value, and the last of several values counts.
        let (key, after) = rest.split_once(['&', '=']).unwrap_or((rest, ""));
        let (value, after) = after.split_once('&').unwrap_or((after, ""));
        if decoded(key).is_some_and(|key| key == "service") {
            name = Some(value);
        }
        rest = after;
    }
    let name = decoded(name?)?;
    [Service::UploadPack, Service::ReceivePack]
        .into_iter()
        .find(|service| name.strip_prefix("git-") == Some(service.name()))
}

/// Returns the repository's part of `path` if it is a path of the dumb HTTP protocol other than that of `info/refs`.
fn dumb(path: &str) -> Option<&str> {
    if let Some(path) = path.strip_suffix("/HEAD") {
        return Some(path);
    }
    let (at, file) = path.match_indices("/objects/").last().map(|(at, part)| (at, &path[at + part.len()..]))?;
    let is_hex = |text: &str, len: &[usize]| {
        len.contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_pack = |file: &str| {
        let name = file.strip_suffix(".pack").or_else(|| file.strip_suffix(".idx"));
        name.is_some_and(|name| is_hex(name, &[40, 64]))
    };
    let is_known = match file {
        "info/alternates" | "info/http-alternates" | "info/packs" => true,
        _ => match file.split_once('/') {
            Some(("pack", file)) => file.strip_prefix("pack-").is_some_and(is_pack),
            Some((folder, file)) => is_hex(folder, &[2]) && is_hex(file, &[38, 62]),
            None => false,
        },
    };
    is_known.then_some(&path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_follows_from_method_and_path() {
        fn get(path: &str) -> Route<'_> {
            Route::of(&Method::GET, path, Some("service=git-upload-pack"))
        }
        assert_eq!(get("/a/info/refs"), Route::Advertise { path: "/a", service: Service::UploadPack });
        assert_eq!(get("/a/git-upload-pack"), Route::Method(SERVING));
        assert_eq!(get("/a/b"), Route::Unknown);
        assert_eq!(get("/a/HEAD"), Route::Disabled { path: "/a" });
        let id = "0".repeat(38);
        for file in ["info/packs", &format!("ab/{id}"), &format!("pack/pack-00{id}.idx")] {
            let path = format!("/a/objects/{file}");
            assert_eq!(get(&path), Route::Disabled { path: "/a" });
        }
        assert_eq!(get("/a/objects/AB/x"), Route::Unknown);
        let post = |path| Route::of(&Method::POST, path, None);
        assert_eq!(post("/a/git-receive-pack"), Route::Answer { path: "/a", service: Service::ReceivePack });
        assert_eq!(post("/a/git-upload-archive"), Route::Disabled { path: "/a" });
        assert_eq!(post("/a/info/refs"), Route::Method(READING));
    }

    #[test]
    fn the_service_is_named_by_the_query() {
        let service = |query| match Route::of(&Method::HEAD, "/a/info/refs", query) {
            Route::Advertise { service, .. } => Some(service),
            _ => None,
        };
        assert_eq!(service(Some("a=b&service=git-receive-pack")), Some(Service::ReceivePack));
        assert_eq!(service(Some("ser%76ice=git%2Dupload-pack")), Some(Service::UploadPack));
        assert_eq!(service(Some("a&b&service=git-upload-pack")), Some(Service::UploadPack));
        for none in [
            None,
            Some(""),
            Some("service=upload-pack"),
            Some("service=git-upload-archive"),
            Some("Service=x"),
            // Previously, these named a service, unlike in git.
            Some("&service=git-upload-pack"),
            Some("a&service=git-upload-pack"),
            Some("service=git-upload-pack&service"),
        ] {
            assert_eq!(service(none), None, "{none:?}");
        }
    }
}
