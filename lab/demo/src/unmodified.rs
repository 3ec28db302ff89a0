//! The distribution's nginx, unmodified: with the same configuration on kernel sockets and on our stack
//! (`nearside run`), over a link of a field's or of one's own.

use crate::child::{Interrupt, Program};
use crate::error::Error;
use crate::field::{Field, Link};
use crate::kernel::{LISTENS, best};
use crate::machine::{children, find_program};
use crate::measure::{FILE_BYTES, SMALL_BODY};
use crate::stand::{START, Server, Stand};
use page::Reader;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What is asked of a [`site`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// A text from memory (`return`).
    Return,
    /// A file that is opened for each request.
    File,
    /// The same, kept open (`open_file_cache`).
    CachedFile,
    /// The same, compressed for each request (`gzip on`).
    Gzip,
}

impl Served {
    /// The path of its URL.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Return => "/small",
            Self::File => "/plain/page.html",
            Self::CachedFile => "/cached/page.html",
            Self::Gzip => "/gzip/page.html",
        }
    }

    /// Options of the generator that asks for it.
    #[must_use]
    pub fn options(self) -> Vec<String> {
        if self == Self::Gzip { vec!["--header=Accept-Encoding: gzip".to_owned()] } else { Vec::new() }
    }
}

/// A configuration for the same answers from whoever serves by it, with its file: its path. It has a
/// worker on each of these cores, and listens there (`listen` is what the directive takes).
///
/// # Errors
/// If the files cannot be written.
pub fn site(folder: &Path, listen: &str, cores: &[u16]) -> Result<PathBuf, Error> {
    let pages = folder.join("pages");
    let fail = || Error::io(format!("cannot write to {}", folder.display()));
    fs::create_dir_all(&pages).map_err(fail())?;
    // Workers run under a user of their own.
    [folder, &pages]
        .iter()
        .try_for_each(|at| fs::set_permissions(at, fs::Permissions::from_mode(0o755)))
        .map_err(fail())?;
    let text: String =
        "<p>Nothing here but words, some of them twice.</p>\n".chars().cycle().take(FILE_BYTES).collect();
    fs::write(pages.join("page.html"), text).map_err(fail())?;
    let file = folder.join("unmodified.conf");
    fs::write(&file, configuration(folder, listen, cores)).map_err(fail())?;
    Ok(file)
}

/// One that lets nginx do its best: no log, no limit on requests of a connection.
fn configuration(folder: &Path, listen: &str, cores: &[u16]) -> String {
    let (here, workers, affinity) = (folder.display(), cores.len().max(1), affinity(cores));
    let best = best(folder);
    format!(
        "daemon off;
worker_processes {workers};
{affinity}worker_rlimit_nofile 65536;
pid {here}/unmodified.pid;
events {{ worker_connections 16384; multi_accept on; }}
http {{
{best}    server {{
        listen {listen} backlog=65535;
        location = /small {{ default_type text/plain; return 200 \"{SMALL_BODY}\"; }}
        location /plain/ {{ alias {here}/pages/; }}
        location /cached/ {{ alias {here}/pages/; open_file_cache max=256; open_file_cache_valid 60s; }}
        location /gzip/ {{
            alias {here}/pages/; open_file_cache max=256; open_file_cache_valid 60s;
            gzip on; gzip_min_length 1;
        }}
    }}
}}
"
    )
}

/// Each worker on a core of its own; one alone is put there as it is started.
fn affinity(cores: &[u16]) -> String {
    if cores.len() < 2 {
        return String::new();
    }
    let mask = |core: &u16| format!(" 1{}", "0".repeat(usize::from(*core)));
    format!("worker_cpu_affinity{};\n", cores.iter().map(mask).collect::<String>())
}

fn nginx_path() -> Result<String, Error> {
    find_program("nginx").ok_or_else(|| Error::Machine("nginx is not installed".to_owned()))
}

/// The library that `nearside run` preloads, and where it lies, from the program.
const LIBRARY: &str = "libnearside_preload.so";
const PLACES: [&str; 2] = ["", "../lib/nearside"];

/// Why nginx cannot be run on our stack here by this program, if so.
#[must_use]
pub fn missing(program: &str) -> Option<String> {
    if find_program("nginx").is_none() {
        return Some("nginx is not installed (package nginx-light)".to_owned());
    }
    let folder = Path::new(program).parent().unwrap_or(Path::new("."));
    let is_there = PLACES.iter().any(|place| folder.join(place).join(LIBRARY).is_file());
    (!is_there).then(|| format!("{LIBRARY} is not where {program} looks for it: make build"))
}

/// nginx to be run.
#[derive(Clone, Copy, Debug)]
pub struct RunNginx<'a> {
    /// By this configuration, which keeps it in the foreground.
    pub configuration: &'a Path,
    /// With so many workers.
    pub workers: usize,
    /// A library that is loaded before the C library, as for another malloc.
    pub preload: Option<&'a Path>,
}

impl Stand {
    /// Starts nginx on our stack, in a namespace and on a core if they are named, and waits until each
    /// of its workers has a seat at the link. `options` are those of `nearside run`: the link, and our
    /// address there. The server's processes are the workers.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn run_nginx(
        &self,
        (netns, core): (Option<&str>, Option<u16>),
        options: &[String],
        run: RunNginx<'_>,
        interrupt: &Interrupt,
    ) -> Result<Server, Error> {
        let preload = run.preload.map(|library| format!("LD_PRELOAD={}", library.display()));
        let mut words: Vec<String> =
            preload.map(|variable| ["env".to_owned(), variable]).into_iter().flatten().collect();
        words.extend([self.program().to_owned(), "run".to_owned(), format!("--workers={}", run.workers.clamp(1, 16))]);
        words.extend_from_slice(options);
        words.extend(["--".to_owned(), nginx_path()?, "-e".to_owned(), "stderr".to_owned()]);
        words.extend(["-c".to_owned(), run.configuration.display().to_string()]);
        let mut running = Program { name: "nearside run", netns, core, words }.start(self.folder())?;
        let keeper = running.pid();
        let workers = || children(keeper).into_iter().flat_map(children).collect::<Vec<u32>>();
        let serves = || workers().len() >= run.workers && seats_taken(keeper).is_none_or(|taken| taken >= run.workers);
        running.wait_until("have nginx's workers serve", START, interrupt, serves)?;
        interrupt.sleep(LISTENS)?;
        Ok(Server::run(running, workers()))
    }
}

/// How many workers have a seat, by the page of their keeper; nothing where it has none.
fn seats_taken(keeper: u32) -> Option<usize> {
    let pages = page::living_of_user().ok()?;
    let page = pages.into_iter().find(|page| page.pid() == keeper)?;
    let process = page.metrics().iter().position(|(name, _)| name == "program.pid")?;
    let taken = |page: &Reader| {
        let silos = page.snapshot().ok()?.silos;
        Some(silos.iter().filter(|silo| silo.values.get(process).is_some_and(|pid| *pid != 0)).count())
    };
    taken(&page)
}

impl Field<'_> {
    /// nginx on our stack over a link of this field, with a worker on each core of the server, and its
    /// configuration in the stand's folder.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn run_nginx(&self, link: Link) -> Result<Server, Error> {
        let configuration = site(self.stand.folder(), &format!("{}:80", Self::address(link)), self.servers)?;
        let core = self.servers.first().copied().filter(|_| self.servers.len() == 1);
        let run = RunNginx { configuration: &configuration, workers: self.servers.len(), preload: None };
        self.stand.run_nginx((self.namespace(link), core), &self.path(link), run, self.interrupt)
    }

    /// nginx with the same configuration on kernel sockets, at a port of the pair's server.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn start_nginx(&self, port: u16) -> Result<Server, Error> {
        let configuration =
            site(self.stand.folder(), &format!("{}:{port}", Self::address(Link::Kernel)), self.servers)?;
        let words = [&nginx_path()?, "-e", "stderr", "-c", &configuration.display().to_string()].map(str::to_owned);
        let core = self.servers.first().copied().filter(|_| self.servers.len() == 1);
        let program = Program { name: "nginx", netns: self.namespace(Link::Kernel), core, words: words.into() };
        let mut running = program.start(self.stand.folder())?;
        let master = running.pid();
        let all = self.servers.len();
        running.wait_until("start its workers", START, self.interrupt, || children(master).len() >= all)?;
        self.interrupt.sleep(LISTENS)?;
        Ok(Server::run(running, children(master)))
    }

    /// Our own server by the same configuration, on the first of the server's cores, at
    /// [`Field::address`]: over kernel sockets at `port`, else at port 80.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn serve_site(&self, link: Link, port: u16) -> Result<Server, Error> {
        let port = if link == Link::Kernel { port } else { 80 };
        let listen = format!("{}:{port}", Self::address(link));
        let configuration = site(self.stand.folder(), &listen, &self.servers[..self.servers.len().min(1)])?;
        self.serve_configuration(link, &configuration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_a_core_each() {
        assert_eq!(affinity(&[3]), "");
        assert_eq!(affinity(&[0, 1, 4]), "worker_cpu_affinity 1 10 10000;\n");
        let text = configuration(Path::new("/here"), "10.0.0.1:80", &[0, 1]);
        assert!(text.contains("worker_processes 2;\nworker_cpu_affinity 1 10;\n"), "{text}");
        assert!(text.contains("listen 10.0.0.1:80 "), "{text}");
    }

    #[test]
    fn each_kind_of_answer_has_a_location_of_its_own() {
        let text = configuration(Path::new("/here"), "80", &[0]);
        for kind in [Served::Return, Served::File, Served::CachedFile, Served::Gzip] {
            let location = kind.path().strip_suffix("page.html").unwrap_or("= /small");
            assert!(text.contains(&format!("location {location} {{")), "{location}: {text}");
        }
        let (before, _) = text.split_once("location /cached/").expect("it is there");
        assert!(!before.contains("open_file_cache") && !before.contains("gzip"), "{before}");
        assert_eq!(Served::Gzip.options().len(), 1);
    }
}
