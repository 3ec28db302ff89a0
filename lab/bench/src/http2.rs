//! HTTP/2 versus nginx and h2o, on every data path: connections of many streams and of one, by prior
//! knowledge and over TLS. At full load requests a second, at loads that servers have processor time
//! for a request and latencies, as [`offered`](crate::offered) measures them.

use crate::BenchError;
use crate::offered::{self, DataPath, OfferedRow};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct Plan {
    /// Measure each this often, by turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Connections, and streams under way on each
    #[arg(long, value_name = "CONNECTIONSxSTREAMS,…", value_delimiter = ',', default_value = "10x100,256x100,64x1")]
    pub shapes: Vec<StreamShape>,
    /// Loads, in percent of nginx's best of the same row in the same run
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_value = "30,80",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub loads: Vec<u32>,
    /// Measure these rows
    #[arg(long, value_enum, value_name = "ROW,…", value_delimiter = ',', default_value = "http2,http2-tls")]
    pub rows: Vec<OfferedRow>,
    /// Measure these data paths of ours
    #[arg(long, value_enum, value_name = "PATH,…", value_delimiter = ',', default_value = "sockets,af-xdp,memif")]
    pub paths: Vec<DataPath>,
    /// The nginx beside it
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/sbin/nginx")]
    pub nginx: PathBuf,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    pub nearside: Option<PathBuf>,
}

/// So many connections, each with so many streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamShape {
    /// Connections.
    pub connections: u32,
    /// Requests under way on each.
    pub streams: u16,
}

impl FromStr for StreamShape {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('x').and_then(|(one, other)| Some((one.parse().ok()?, other.parse().ok()?)));
        match parts {
            Some((connections @ 1..=4_096, streams @ 1..=128)) => Ok(Self { connections, streams }),
            _ => Err("it is CONNECTIONSxSTREAMS, of 1 to 4096 and 1 to 128"),
        }
    }
}

/// Measures by turns and prints. Returns whether the bounds are kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan, nearside: &Path) -> Result<bool, BenchError> {
    let mut kept = true;
    for shape in &plan.shapes {
        println!("{} connections of {} streams", shape.connections, shape.streams);
        let offered = offered::Plan {
            rounds: plan.rounds,
            seconds: plan.seconds,
            loads: plan.loads.clone(),
            rates: Vec::new(),
            rows: plan.rows.clone(),
            paths: plan.paths.clone(),
            idle: vec![None],
            only_nginx: false,
            connections: shape.connections,
            streams: shape.streams,
            best: true,
            calls: false,
            json: false,
            nginx: plan.nginx.clone(),
            nearside: plan.nearside.clone(),
        };
        kept &= offered::run(&offered, nearside)?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_two_numbers() {
        assert_eq!("10x100".parse(), Ok(StreamShape { connections: 10, streams: 100 }));
        for wrong in ["10", "x", "0x1", "1x0", "1x129", "4097x1", "1x1x1", "-1x1"] {
            assert!(wrong.parse::<StreamShape>().is_err(), "{wrong}");
        }
    }
}
