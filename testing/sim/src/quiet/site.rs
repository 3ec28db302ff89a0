//! The site of a quiet server: its files, and what an nginx.conf says of them.

use super::cases::{gzipped_length, packed, text, text_length, tree};
use super::name_server::{self, NameServer};
use crate::proxied::Text;
use core::net::SocketAddr;
use core::time::Duration;
use nginx::{Configuration, Surroundings};
use server::{Config, Content, ReaderKind, Server, WallClock};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::{fs, io};
use wire::Time;

/// `{o}` is the upstream, `{h}` and `{p}` its name and port, `{n}` who resolves names, `{r}` the folder with the site's files, `{t}` one for those that it
/// makes.
const CONF: &str = "\
    error_log /dev/null crit;\n\
    events {}\n\
    http {\n\
    access_log off; error_log /dev/null crit; client_max_body_size 0; client_body_buffer_size 1m;\n\
    client_body_temp_path {t}/body; proxy_temp_path {t}/proxy; default_type text/plain;\n\
    proxy_http_version 1.1; gzip_types *; gzip_min_length 0; gzip_proxied any; gzip_comp_level 1;\n\
    sub_filter_types *; sub_filter_once off; ssi_types *; addition_types *; charset_types *;\n\
    fastcgi_param REQUEST_URI $request_uri; fastcgi_param CONTENT_LENGTH $content_length;\n\
    uwsgi_param REQUEST_URI $request_uri; uwsgi_param CONTENT_LENGTH $content_length;\n\
    scgi_param REQUEST_URI $request_uri; scgi_param CONTENT_LENGTH $content_length;\n\
    charset_map windows-1251 utf-8 { C0 D090; C1 D091; }\n\
    server { listen 80;\n\
    location /plain/ { proxy_pass http://{o}; }\n\
    location /name/ { resolver {n} ipv6=off; set $up {h}; proxy_pass http://$up:{p}; }\n\
    location /noname/ { resolver {n} ipv6=off; set $up none.quiet; proxy_pass http://$up:{p}; }\n\
    location /old/ { proxy_http_version 1.0; proxy_pass http://{o}; }\n\
    location /unbuf/ { proxy_buffering off; proxy_request_buffering off; proxy_pass http://{o}; }\n\
    location /small/ { client_body_buffer_size 16k; proxy_buffers 2 4k; proxy_pass http://{o}; }\n\
    location /sub/ { sub_filter hello HELLO!; proxy_pass http://{o}; }\n\
    location /gzip/ { gzip on; proxy_pass http://{o}; }\n\
    location /gunzip/ { gunzip on; proxy_pass http://{o}; }\n\
    location /gunsub/ { gunzip on; sub_filter hello HELLO!; proxy_pass http://{o}; }\n\
    location /charset/ { charset utf-8; source_charset windows-1251; override_charset on; proxy_pass http://{o}; }\n\
    location /ssi/ { ssi on; proxy_pass http://{o}; }\n\
    location /add/ { add_before_body /f/small.txt; add_after_body /plain/o/small; proxy_pass http://{o}; }\n\
    location /slice/ { slice 256k; proxy_set_header Range $slice_range; proxy_pass http://{o}; }\n\
    location /auth/ { auth_request /plain/o/small; proxy_pass http://{o}; }\n\
    location /mirror/ { mirror /plain/o/small; proxy_pass http://{o}; }\n\
    location /limit/ { limit_rate 2m; proxy_pass http://{o}; }\n\
    location /paced/ { proxy_limit_rate 2m; proxy_pass http://{o}; }\n\
    location /pacedf/ { fastcgi_limit_rate 2m; fastcgi_pass {o}; }\n\
    location /head/ { proxy_method HEAD; proxy_pass http://{o}; }\n\
    location /headgz/ { proxy_method HEAD; gzip on; proxy_pass http://{o}; }\n\
    location /headsub/ { proxy_method HEAD; sub_filter hello HELLO!; proxy_pass http://{o}; }\n\
    location /err/ { proxy_intercept_errors on; error_page 500 = /plain/o/len; proxy_pass http://{o}; }\n\
    location /named/ { recursive_error_pages on; proxy_intercept_errors on; error_page 500 = @one;\n\
        proxy_pass http://{o}; }\n\
    location @one { error_page 404 = @two; return 404; }\n\
    location @two { rewrite ^ /plain/o/len break; proxy_pass http://{o}; }\n\
    location /up/ { proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;\n\
        proxy_pass http://{o}; }\n\
    location /fcgi/ { fastcgi_pass {o}; }\n\
    location /fcgiu/ { fastcgi_buffering off; fastcgi_request_buffering off; fastcgi_pass {o}; }\n\
    location /fcgiz/ { gzip on; fastcgi_pass {o}; }\n\
    location /uwsgi/ { uwsgi_pass {o}; }\n\
    location /uwsgiu/ { uwsgi_buffering off; uwsgi_request_buffering off; uwsgi_pass {o}; }\n\
    location /uwsgiz/ { gzip on; uwsgi_pass {o}; }\n\
    location /scgi/ { scgi_pass {o}; }\n\
    location /scgiu/ { scgi_buffering off; scgi_request_buffering off; scgi_pass {o}; }\n\
    location /scgiz/ { gzip on; scgi_pass {o}; }\n\
    location /f/ { alias {r}/; }\n\
    location /fgz/ { gzip on; alias {r}/; }\n\
    location /fsub/ { sub_filter hello HELLO!; alias {r}/; }\n\
    location /fssi/ { ssi on; alias {r}/; }\n\
    location /fgun/ { gunzip on; gzip_static always; alias {r}/; }\n\
    location /fadd/ { add_before_body /f/small.txt; add_after_body /f/big.txt; alias {r}/; }\n\
    location /flimit/ { limit_rate 2m; alias {r}/; }\n\
    location /fsublimit/ { limit_rate 2m; sub_filter hello HELLO!; alias {r}/; }\n\
    location /dir/ { autoindex on; alias {r}/many/; }\n\
    location /page/ { error_page 404 = /f/big.txt; alias {r}/; }\n\
    location /pw/ { auth_basic a; auth_basic_user_file {r}/users; alias {r}/; }\n\
    } }";

/// A server before it, `{s}`, which speaks TLS to it.
const FRONT: &str = "\
    error_log /dev/null crit;\n\
    events {}\n\
    http {\n\
    access_log off; error_log /dev/null crit; client_max_body_size 0;\n\
    client_body_temp_path {t}/body; proxy_temp_path {t}/proxy;\n\
    server { listen 80;\n\
    location / { proxy_http_version 1.1; proxy_set_header Host quiet; proxy_buffering off;\n\
        proxy_request_buffering off; proxy_pass https://{s}; }\n\
    } }";

/// Has a key and a certificate of its own made.
const CERTIFY: &str = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=quiet \
    -days 30 -keyout own.key -out own.pem 2> /dev/null";

/// Files in a folder of their own, which goes with the last who has it.
#[derive(Clone, Debug)]
pub struct Site(Arc<Folder>);

#[derive(Debug)]
struct Folder(PathBuf, NameServer);

impl Site {
    /// Makes the files, in a folder with this name.
    ///
    /// # Errors
    /// The system's.
    pub fn new(name: &str) -> io::Result<Self> {
        let root = std::env::temp_dir().join(format!("nearside-quiet-{}-{name}", std::process::id()));
        fs::create_dir_all(root.join("many"))?;
        let write = |name: &str, bytes: &[u8]| fs::write(root.join(name), bytes);
        write("big.txt", &text(text_length()))?;
        write("small.txt", &text(40))?;
        write("packed.gz", &packed(gzipped_length()))?;
        write("users", b"u:{PLAIN}p\n")?;
        for depth in 0..14 {
            write(&format!("t{depth}.shtml"), &tree(depth))?;
        }
        let include = |path: &str| format!("<!--#include virtual=\"{path}\" -->");
        let one = [include("/f/small.txt"), include("/plain/o/small")].concat();
        write("many.shtml", format!("{}end", one.repeat(100)).as_bytes())?;
        write(
            "far.shtml",
            [include("/plain/o/len"), include("/f/small.txt"), include("/f/big.txt")].concat().as_bytes(),
        )?;
        write("head.shtml", format!("[{}]", include("/head/o/head")).as_bytes())?;
        let set = "<!--#include virtual=\"/plain/o/small\" set=\"a\" -->[<!--#echo var=\"a\" encoding=\"none\" -->]";
        write("set.shtml", set.as_bytes())?;
        write("hold.shtml", include("/plain/o/never").repeat(3).as_bytes())?;
        write("inner.shtml", [include("/plain/o/small"), include("/plain/o/second")].concat().as_bytes())?;
        let waits = [include("/plain/o/never").repeat(3), include("/fssi/inner.shtml")].concat();
        write("waits.shtml", waits.as_bytes())?;
        write("half.shtml", include("/plain/o/half").repeat(3).as_bytes())?;
        for at in 0..600 {
            write(&format!("many/file-with-a-name-{at}.txt"), b"x")?;
        }
        Ok(Self(Arc::new(Folder(root, NameServer::start()?))))
    }

    /// The same, whose server speaks TLS, with a server before it that is its client.
    ///
    /// # Errors
    /// The system's; there is no `openssl`.
    pub fn secured(name: &str) -> io::Result<Self> {
        let site = Self::new(name)?;
        let made = Command::new("sh").args(["-c", CERTIFY]).current_dir(&site.0.0).status()?;
        if made.success() { Ok(site) } else { Err(io::Error::other("openssl")) }
    }

    /// Whether its server speaks TLS.
    #[must_use]
    pub fn is_secured(&self) -> bool {
        self.0.0.join("own.pem").exists()
    }

    /// The server before one that speaks TLS there.
    #[must_use]
    pub fn front(&self, secured: SocketAddr, now: Time) -> Server {
        let root = self.0.0.to_string_lossy();
        serve(FRONT.replace("{s}", &secured.to_string()).replace("{t}", &root), now)
    }

    /// A server of it, whose upstream is there.
    ///
    /// # Panics
    /// The site cannot be had.
    #[must_use]
    pub fn server(&self, upstream: SocketAddr, now: Time) -> Server {
        let root = self.0.0.to_string_lossy();
        let mut text = CONF.replace("{o}", &upstream.to_string()).replace("{r}", &root).replace("{t}", &root);
        let (host, port) = (name_server::name_of(upstream.ip()), upstream.port().to_string());
        text = text.replace("{h}", &host).replace("{p}", &port).replace("{n}", &self.0.1.at().to_string());
        if self.is_secured() {
            let secured = format!("listen 80 ssl; ssl_certificate {root}/own.pem; ssl_certificate_key {root}/own.key;");
            text = text.replace("listen 80;", &secured);
        }
        serve(text, now)
    }
}

/// A server as this nginx.conf has it.
fn serve(text: String, now: Time) -> Server {
    let configuration = Configuration::read(&mut Text(text), Path::new("/nginx.conf"), b"");
    let configuration = configuration.unwrap_or_else(|why| panic!("{why}"));
    let around = Surroundings { prefix: Path::new("/tmp"), hostname: "quiet", root: false, resolve: |_| Vec::new() };
    let compiled = nginx::compile(&configuration, around).unwrap_or_else(|why| panic!("{why}"));
    let mut config = Config::program(Arc::new(compiled.program));
    if let Content::Program(_, directory) = &mut config.content {
        directory.reader = ReaderKind::Inline;
    }
    let clock = WallClock::new(now, Duration::from_secs(1_700_000_000));
    Server::new(config, clock).unwrap_or_else(|why| panic!("{why}"))
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
