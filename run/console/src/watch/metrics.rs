//! The last sample, for whoever asks over HTTP.

use ::metrics::{Answer, Endpoint, answer_at};
use ::watch::{MEDIA_TYPE, Sample, openmetrics};
use say::Failure;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Answers on an address. It ends with the process.
pub(super) struct Server {
    text: Arc<Mutex<Arc<str>>>,
}

impl Server {
    pub(super) fn listen(address: SocketAddr) -> Result<Self, Failure> {
        let endpoint = Endpoint::bind(address, false).map_err(|why| format!("{address}: {why}"))?;
        let text = Arc::new(Mutex::new(Arc::from("")));
        let shown = Arc::clone(&text);
        answer_at(endpoint, move |path| answer(path, &shown))?;
        Ok(Self { text })
    }

    pub(super) fn show(&self, sample: &Sample) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = openmetrics(sample).into();
    }
}

fn answer(path: &str, text: &Mutex<Arc<str>>) -> Answer {
    match path {
        "/metrics" => {
            let body = Arc::clone(&text.lock().unwrap_or_else(PoisonError::into_inner));
            Answer { status: "200 OK", media_type: MEDIA_TYPE, body }
        }
        _ => Answer::text("404 Not Found", "the metrics are at /metrics\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_at_their_place_only() {
        let text = Mutex::new(Arc::from("x 1\n# EOF\n"));
        let found = answer("/metrics", &text);
        assert_eq!((found.status, &*found.body), ("200 OK", "x 1\n# EOF\n"));
        assert!(found.media_type.starts_with("application/openmetrics-text;"));
        assert_eq!(answer("/", &text).status, "404 Not Found");
    }
}
