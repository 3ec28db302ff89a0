//! A service over kernel sockets that needs none of the features: it greets whom the query
//! or the path names.
//!
//! ```text
//! small 127.0.0.1:8007
//! curl 'http://127.0.0.1:8007/?name=Ada%20Lovelace'    hello, Ada Lovelace
//! curl http://127.0.0.1:8007/hello/J%C3%BCrgen         hello, Jürgen
//! ```

use nearside::{BadEscape, Http, Kernel, Method, Reply, Request, Status, percent_decoded, query_pairs};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Whom the query names, or the path.
fn name(request: &Request<'_>) -> Result<Option<Vec<u8>>, BadEscape> {
    for pair in query_pairs(request.query().unwrap_or_default()) {
        let (name, value) = pair?;
        if *name == *b"name" {
            return Ok(Some(value.into_owned()));
        }
    }
    let Some(name) = request.path().strip_prefix(b"/hello/") else { return Ok(None) };
    Ok(Some(percent_decoded(name)?.into_owned()))
}

fn greet(request: &Request<'_>, _body: &[u8], reply: &mut Reply) {
    if !matches!(request.method(), Method::Get | Method::Head) {
        reply.status(Status::METHOD_NOT_ALLOWED).field("Allow", b"GET, HEAD");
        return;
    }
    reply.field("Content-Type", b"text/plain; charset=utf-8");
    match name(request) {
        Ok(Some(name)) => reply.body(b"hello, ").body(&name).body(b"\n"),
        Ok(None) => reply.status(Status::NOT_FOUND).body(b"nobody is named\n"),
        Err(why) => reply.status(Status::BAD_REQUEST).body(format!("{why}\n").as_bytes()),
    };
}

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::args().nth(1).ok_or("usage: small ADDRESS:PORT")?;
    let stop = Arc::new(AtomicBool::new(false));
    // Ctrl-C, and what service managers send: what is under way is finished.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let kernel = Kernel::listen(&[place.parse()?], Http::new(greet)?)?;
    eprintln!("http://{}/", kernel.endpoints()[0]);
    kernel.run(&stop)?;
    Ok(())
}
