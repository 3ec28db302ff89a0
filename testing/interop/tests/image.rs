//! The image `nearside:nginx` without an engine: its tree as the Dockerfile lays it out, as
//! the root of a process that is the first of its namespace. The base is this machine's
//! shell and the few programs that scripts of the image call, which any Debian has.

use interop::{Nearside, Program, Running, in_namespace, output, scratch, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the image's scripts call.
const TOOLS: [&str; 17] = [
    "awk", "cat", "cmp", "dirname", "env", "find", "grep", "head", "id", "mkdir", "mktemp", "paste", "rm", "sed", "sh",
    "sort", "touch",
];

/// Becomes the container's first process: the folder of the root; `ro`, where nothing may be
/// written; folders for tmpfs; and after `--` the program, its tools, and the command.
const BEGIN: &str = r#"
set -eu
root=$1; access=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/host/usr" "$root/proc" "$root/dev" "$root/run" "$root/tmp"
mount --bind /usr "$root/host/usr"
for folder in lib lib64; do
    [ -e "/$folder" ] || continue
    if [ -h "/$folder" ]; then ln -sfn "host/usr/$folder" "$root/$folder"
    else mkdir -p "$root/$folder"; mount --bind "/$folder" "$root/$folder"; fi
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
    mkdir -p "$root$1"
    mount -t tmpfs -o mode=1777 tmpfs "$root$1"
    shift
done
shift
mount --bind "$1" "$root/usr/bin/nearside"
mount --bind "$1-tools" "$root/usr/lib/nearside/nearside-tools"
shift
[ "$access" != ro ] || mount -o remount,ro,bind "$root"
exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
"#;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/container/nginx")
}

/// The image, and what a test adds to it.
struct Image(PathBuf);

impl Image {
    fn new(test: &str) -> Self {
        let folder = scratch(&format!("image-{test}"));
        let _ = fs::remove_dir_all(&folder);
        let (root, built) = (folder.join("root"), folder.join("built"));
        for folder in [&built, &root.join("bin"), &root.join("etc"), &root.join("usr/bin")] {
            fs::create_dir_all(folder).unwrap();
        }
        // In their places are the real ones later: these are large.
        for name in ["nearside", "nearside-tools"] {
            fs::write(built.join(name), "").unwrap();
        }
        let _ = output(Command::new(packaging().join("lay-out.sh")).arg(&root).arg(built.join("nearside")));
        for tool in TOOLS {
            let found = output(Command::new("sh").args(["-c", "readlink -f \"$(command -v \"$0\")\"", tool]));
            symlink(format!("/host{}", found.trim()), root.join("usr/bin").join(tool)).unwrap();
        }
        symlink("/usr/bin/sh", root.join("bin/sh")).unwrap();
        let image = Self(root);
        image.write("etc/passwd", "root:x:0:0::/root:/bin/sh\nnginx:x:101:101::/nonexistent:/bin/false\n");
        image.write("etc/group", "root:x:0:\nnginx:x:101:\n");
        image
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn script(&self, name: &str, text: &str) {
        let path = format!("docker-entrypoint.d/{name}");
        self.write(&path, text);
        fs::set_permissions(self.0.join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default()
    }

    /// As an engine starts it: with pipes for what it says, and the image's own command.
    fn start(&self, access: &str, tmpfs: &[&str], variables: &[&str]) -> Container {
        self.start_by("nginx", access, tmpfs, variables)
    }

    fn start_by(&self, name: &str, access: &str, tmpfs: &[&str], variables: &[&str]) -> Container {
        let streams = ["out", "err"].map(|name| {
            let pipe = self.0.with_file_name(name);
            let _ = fs::remove_file(&pipe);
            let _ = output(Command::new("mkfifo").arg(&pipe));
            (Running::start(Command::new("cat").arg(&pipe)), pipe)
        });
        let [(out, to_out), (err, to_err)] = streams;
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" >\"$OUT\" 2>\"$ERR\"", "sh"]).env("OUT", to_out).env("ERR", to_err);
        command.args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", BEGIN, "sh"]);
        command.arg(&self.0).arg(access).args(tmpfs).arg("--").arg(Nearside::command([""; 0]).get_program());
        command.args(variables).args(["/docker-entrypoint.sh", name, "-g", "daemon off;"]);
        Container { first: Running::start(&mut command), out, err }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.parent().expect("the test's own folder"));
    }
}

struct Container {
    first: Running,
    out: Running,
    err: Running,
}

impl Container {
    /// What is answered, once there is somebody who answers.
    fn ask(&mut self, path: &str) -> String {
        self.first.wait_until_open("127.0.0.1:80");
        ask("127.0.0.1:80", path)
    }

    fn signal(&self, signal: Signal) {
        let id = self.first.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        kill_process(Pid::from_raw(children.trim().parse().unwrap()).unwrap(), signal).unwrap();
    }

    /// How it ended before it served anybody, and what it said.
    fn refused(mut self) -> (Option<i32>, String, String) {
        wait_for("the end of the start", || {
            assert!(TcpStream::connect("127.0.0.1:80").is_err(), "it serves: {}", self.err.said());
            self.first.has_ended()
        });
        self.ended()
    }

    /// How it ended, and what it said on both streams.
    fn ended(mut self) -> (Option<i32>, String, String) {
        wait_for("the container's end", || self.first.has_ended() && self.out.has_ended() && self.err.has_ended());
        (self.first.ended().unwrap().code(), self.out.said(), self.err.said())
    }
}

fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn templates_scripts_and_logs_are_those_of_nginx_s_image() {
    in_namespace(&[], || {
        let image = Image::new("whole");
        image.write(
            "etc/nginx/templates/default.conf.template",
            "server {\n    listen ${PORT};\n    resolver ${NGINX_LOCAL_RESOLVERS};\n    location / { return 200 \
             \"$GREETING from $host$uri, $hidden\"; }\n    location /files { alias /usr/share/nginx/html; }\n}\n",
        );
        // As Kubernetes leads to what it mounts.
        image.write("etc/nginx/templates/..data/other.conf.template", "nonsense");
        image.write("etc/resolv.conf", "search a.example\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n");
        let order = "#!/bin/sh\necho ${0##*/} $GREETING >>/run/order\n";
        for name in ["9-first.sh", "11-second.sh", "100-last.sh"] {
            image.script(name, order);
        }
        image.script("10-greeting.envsh", "export GREETING=hello\n");
        image.write("docker-entrypoint.d/12-not-executable.sh", order);
        image.write("docker-entrypoint.d/notes.txt", "");
        let variables =
            ["PORT=80", "hidden=x", "NGINX_ENVSUBST_FILTER=^[A-Z_]+$", "NGINX_ENTRYPOINT_LOCAL_RESOLVERS=1"];
        // `$hidden` stays, and is nginx's.
        image.write("etc/nginx/conf.d/hidden.conf", "map $uri $hidden { default shown; }\n");
        let mut container = image.start("rw", &[], &variables);
        let answer = container.ask("/page?x");
        assert!(answer.ends_with("\r\n\r\nhello from a.example/page, shown"), "{answer}");
        let site = image.read("etc/nginx/conf.d/default.conf");
        assert!(site.contains("resolver 192.0.2.1 [fe80::1];") && !site.contains("[::]:80"), "{site}");
        assert_eq!(image.read("run/order"), "9-first.sh\n11-second.sh hello\n100-last.sh hello\n");
        assert!(!image.0.join("etc/nginx/conf.d/..data").exists());
        let answer = container.ask("/files/50x.html");
        assert!(answer.contains("Content-Type: text/html\r\n") && answer.contains("Not available"), "{answer}");
        // Logs are opened again by a process that gave its rights up.
        container.signal(Signal::HUP);
        wait_for("the reload", || container.err.said().contains("reloaded"));
        container.ask("/after");
        wait_for("the line", || container.out.said().contains("\"GET /after HTTP/1.1\" 200"));
        container.signal(Signal::QUIT);
        let (code, out, err) = container.ended();
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.contains("127.0.0.1 - - [") && out.contains("\"GET /page?x HTTP/1.1\" 200 "), "{out}");
        assert!(out.contains("12-not-executable.sh is left out: it is not executable"), "{out}");
        assert!(out.contains("notes.txt is left out: its name ends neither in .sh nor in .envsh"), "{out}");
        assert!(err.contains("serves as nginx (user 101)"), "{err}");
    });
}

#[test]
fn on_a_root_that_nothing_writes_to_templates_go_to_a_tmpfs_or_the_start_says_so() {
    in_namespace(&[], || {
        let image = Image::new("read-only");
        // The image's own site needs no place to write but for the process id.
        let quiet = ["NGINX_ENTRYPOINT_QUIET_LOGS=1"];
        let mut container = image.start("ro", &["/run"], &quiet);
        assert!(container.ask("/").contains("Nearside is serving"));
        container.signal(Signal::QUIT);
        let (code, out, err) = container.ended();
        assert_eq!((code, out.lines().count()), (Some(0), 1), "{out}{err}");

        image.write("etc/nginx/templates/a/site.conf.template", "server { listen 80; return 200 \"by $NAME\"; }");
        let variables = ["NAME=me", "NGINX_ENVSUBST_OUTPUT_DIR=/etc/nginx/conf.d"];
        let (code, out, err) = image.start("ro", &["/run", "/tmp"], &variables).refused();
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(err.contains("/etc/nginx/conf.d/a/site.conf cannot be written: give the container a tmpfs"), "{err}");
        assert!(err.contains("(--tmpfs /etc/nginx/conf.d)") && err.contains("nothing is started: "), "{err}");

        image.write("etc/nginx/templates/site.conf.template", "server { listen 80; return 200 \"by $NAME\"; }");
        let mut container = image.start_by("nginx-debug", "ro", &["/run", "/etc/nginx/conf.d"], &variables);
        assert!(container.ask("/").ends_with("by me"));
        container.signal(Signal::TERM);
        assert_eq!(container.ended().0, Some(0));

        // What is in the image as it would be made needs no place.
        image.write("etc/nginx/conf.d/site.conf", "server { listen 80; return 200 \"by me\"; }\n");
        image.write("etc/nginx/conf.d/a/site.conf", "server { listen 80; return 200 \"by me\"; }\n");
        fs::remove_file(image.0.join("etc/nginx/conf.d/default.conf")).unwrap();
        let mut container = image.start("ro", &["/run"], &variables);
        assert!(container.ask("/").ends_with("by me"));
        container.signal(Signal::QUIT);
        assert_eq!(container.ended().0, Some(0));
    });
}

#[test]
fn a_script_that_fails_stops_the_start_and_others_change_what_they_say() {
    in_namespace(&[], || {
        let image = Image::new("fails");
        let own = image.read("etc/nginx/conf.d/default.conf");
        image.script("35-fails.sh", "#!/bin/sh\nexit 7\n");
        image.write("etc/nginx/nginx.conf", "worker_processes 7;\nevents {}\n");
        let (code, out, err) = image.start("rw", &[], &["NGINX_ENTRYPOINT_WORKER_PROCESSES_AUTOTUNE=1"]).refused();
        assert_eq!(code, Some(7), "{out}{err}");
        assert!(err.contains("nothing is started: /docker-entrypoint.d/35-fails.sh failed"), "{err}");
        assert_eq!(image.read("etc/nginx/nginx.conf"), "worker_processes auto;\nevents {}\n");
        let site = image.read("etc/nginx/conf.d/default.conf");
        if Path::new("/proc/net/if_inet6").exists() {
            assert_eq!(site, own.replace("listen 80;", "listen 80;\n    listen [::]:80;"));
        } else {
            assert_eq!(site, own);
        }
        // A site of anybody else's stays, and so do streams, which are none of ours.
        image.write("etc/nginx/conf.d/default.conf", "# mine\nlisten 80;\n");
        image.write("etc/nginx/templates/a.conf.stream-template", "");
        let (code, _, err) = image.start("rw", &[], &[]).refused();
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains("a.conf.stream-template is for nginx's module stream"), "{err}");
        assert_eq!(image.read("etc/nginx/conf.d/default.conf"), "# mine\nlisten 80;\n");
    });
}

/// The same text and environment through the image's script and through gettext's program.
#[test]
fn templates_are_what_envsubst_makes_of_them() {
    in_namespace(&[Program::new("envsubst", "gettext-base")], || {
        let folder = scratch("image-envsubst");
        let _ = fs::remove_dir_all(&folder);
        let (templates, made) = (folder.join("templates"), folder.join("made"));
        fs::create_dir_all(templates.join("deep")).unwrap();
        let variables = [
            ("A", "one"),
            ("A_1", "two & \\1 \\n"),
            ("_b", "$A ${A}"),
            ("EMPTY", ""),
            ("LINES_", "x\ny\n"),
            ("uri", "no"),
        ];
        let text = "$A ${A} $A_1 ${A_1}x$Ab $_b$A\n\n\t$$A $${A}} ${A ${} $ $1 ${1} $-A ${A-x} ${ A}\n\\$A \"$A\" '$A'\n\
                    $EMPTY|${EMPTY}| $LINES_ $uri $NONE ${NONE} caf\u{e9}$A\u{e9} $";
        for (filter, known) in [("", "A A_1 _b EMPTY LINES_ uri"), ("^[A-Z]", "A A_1 EMPTY LINES_"), ("^A$", "A")] {
            let name = "deep/name with blanks.conf";
            fs::write(templates.join(format!("{name}.tmpl")), format!("{text}\n")).unwrap();
            let mut script = Command::new(packaging().join("tree/docker-entrypoint.d/20-envsubst-on-templates.sh"));
            script.env_clear().envs(variables).env("PATH", std::env::var_os("PATH").unwrap_or_default());
            script.env("NGINX_ENVSUBST_TEMPLATE_DIR", &templates).env("NGINX_ENVSUBST_OUTPUT_DIR", &made);
            script.env("NGINX_ENVSUBST_TEMPLATE_SUFFIX", ".tmpl").env("NGINX_ENVSUBST_FILTER", filter);
            let _ = output(&mut script);
            let known: String = known.split(' ').map(|name| format!("${{{name}}}")).collect();
            let theirs = output(
                Command::new("sh")
                    .args(["-c", "envsubst \"$1\" <\"$2\"", "sh", &known])
                    .arg(templates.join(format!("{name}.tmpl")))
                    .envs(variables),
            );
            assert_eq!(fs::read_to_string(made.join(name)).unwrap(), theirs, "{filter}");
        }
        fs::remove_dir_all(&folder).unwrap();
    });
}
