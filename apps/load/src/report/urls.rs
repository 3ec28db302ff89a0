//! The figures of each request apart.

use super::Latency;
use crate::figures::{Figures, UrlFigures};
use crate::plan::Plan;
use crate::samples::Class;
use serde::Serialize;

/// The figures of one request of several.
#[derive(Clone, Debug, Serialize)]
pub struct UrlReport {
    /// What is asked for; `None`: all that have no row of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Different requests that the row is of.
    pub requests: usize,
    /// Answers, whatever their status.
    pub responses: u64,
    /// Those with 2xx. gRPC calls are of classes as in [`Statuses`](crate::Statuses).
    pub success: u64,
    /// Those with 3xx.
    pub redirection: u64,
    /// Those with 4xx.
    pub client_error: u64,
    /// Those with 5xx.
    pub server_error: u64,
    /// Requests that failed, timeouts included.
    pub failed: u64,
    /// Answers that were not as they were to be.
    pub wrong: u64,
    /// Bytes of content of all answers.
    pub body_bytes: u64,
    /// From due (in a closed loop: sent) to complete.
    pub latency: Latency,
}

impl UrlReport {
    /// A row for each; those without a single request as well.
    pub(super) fn all(plan: &Plan, figures: &Figures) -> Vec<Self> {
        let own = plan.requests.len().min(plan.url_rows.unwrap_or(0));
        let names = plan.requests.iter().take(own);
        let names = names.map(|one| Some(format!("{} {}", one.item.method, one.item.path))).chain([None]);
        let row = |(name, row): (Option<String>, &UrlFigures)| {
            let requests = if name.is_some() { 1 } else { plan.requests.len() - own };
            Self::new(name, requests, row)
        };
        names.zip(&figures.urls).map(row).collect()
    }

    fn new(request: Option<String>, requests: usize, row: &UrlFigures) -> Self {
        let of = |class: Class| row.classes[class as usize];
        Self {
            request,
            requests,
            responses: row.responses(),
            success: of(Class::Success),
            redirection: of(Class::Redirection),
            client_error: of(Class::ClientError),
            server_error: of(Class::ServerError),
            failed: of(Class::Failed) + of(Class::TimedOut),
            wrong: row.wrong,
            body_bytes: row.body_bytes,
            latency: Latency::of(&row.latency),
        }
    }

    /// Bytes of content of an answer, on average.
    #[must_use]
    pub fn mean_body(&self) -> f64 {
        self.body_bytes as f64 / self.responses.max(1) as f64
    }
}
