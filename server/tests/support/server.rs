//! A real server on a port and data directory of its own, and a small HTTP client that says exactly what it sends.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The owner of every test server.
pub(crate) const OWNER: &str = "anna";
/// The owner's password.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// How long a busy machine may take for what an idle one does at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until `ask` gives something; fails with a dump of the last state.
pub(crate) fn wait_until<T>(what: &str, ask: impl FnMut() -> Result<T, String>) -> T {
    wait_within(PATIENCE, what, ask)
}

/// The same with a time limit of the caller's.
pub(crate) fn wait_within<T>(limit: Duration, what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        match ask() {
            Ok(value) => return value,
            Err(state) if Instant::now() > deadline => panic!("waited for {what}, but: {state}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A data directory of the test's own.
pub(crate) fn data_dir() -> TempDir {
    let base = if Path::new("/var/tmp").is_dir() { "/var/tmp".into() } else { std::env::temp_dir() };
    let dir = tempfile::Builder::new().prefix("opkit-door-").tempdir_in(base).expect("a data directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).expect("its mode");
    dir
}

/// The command with nothing of the developer's environment that could matter.
pub(crate) fn opkit(data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opkit"));
    for name in ["OPKIT_LISTEN", "OPKIT_PUBLIC_URL", "OPKIT_SITE", "OPKIT_URL", "OPKIT_TOKEN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.env("OPKIT_DATA", data).env_remove("MAX_CONCURRENT_SESSIONS").current_dir(data).args(args);
    command
}

/// Runs a command to its end.
pub(crate) fn run(data: &Path, args: &[&str], stdin: &str) -> Output {
    let mut command = opkit(data, args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("opkit starts");
    child.stdin.take().expect("a pipe").write_all(stdin.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// Standard output of a command that must succeed.
pub(crate) fn output_of(data: &Path, args: &[&str], stdin: &str) -> String {
    let output = run(data, args, stdin);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "opkit {args:?} failed: {errors}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// A repository with one commit on `main`.
pub(crate) fn repository(folder: &Path) -> String {
    let path = folder.join("sample");
    std::fs::create_dir_all(&path).expect("a folder");
    std::fs::write(path.join("README.md"), "hello\n").expect("a file");
    let who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
    for args in [&["init", "-q"][..], &["add", "."], &["commit", "-qm", "first"]] {
        assert!(
            Command::new("git").args(who).args(args).current_dir(&path).status().expect("git runs").success()
        );
    }
    path.to_str().expect("UTF-8").to_owned()
}

/// A running server.
pub(crate) struct Server {
    pub(crate) data: TempDir,
    pub(crate) address: SocketAddr,
    child: Child,
    lines: Receiver<String>,
    reported: Vec<String>,
}

impl Server {
    /// Starts a server without an owner.
    pub(crate) fn start() -> Server {
        Server::start_in(data_dir(), &[])
    }

    /// Starts a server with an owner.
    pub(crate) fn with_owner() -> Server {
        let data = data_dir();
        output_of(data.path(), &["setup", "--owner", OWNER, "--password-stdin"], PASSWORD);
        Server::start_in(data, &[])
    }

    pub(crate) fn start_in(data: TempDir, args: &[&str]) -> Server {
        Server::start_with(data, args, &[])
    }

    /// Starts a server with variables of its own environment.
    pub(crate) fn start_with(data: TempDir, args: &[&str], variables: &[(&str, &str)]) -> Server {
        let mut command = opkit(data.path(), &["serve", "--listen", "127.0.0.1:0"]);
        command.args(args).envs(variables.iter().copied());
        Server::of(data, command)
    }

    /// A server that a command of the test's own starts, such as a supervisor.
    pub(crate) fn of(data: TempDir, mut command: Command) -> Server {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("opkit starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut server = Server {
            data,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            child,
            lines,
            reported: Vec::new(),
        };
        let address = server.line("listening on http://");
        server.address = address.parse().expect("an address");
        server
    }

    /// The rest of the line that begins so.
    pub(crate) fn line(&mut self, begins: &str) -> String {
        loop {
            let found = self.reported.iter().find_map(|line| line.strip_prefix(begins)).map(str::to_owned);
            match found {
                Some(rest) => return rest,
                None => match self.lines.recv_timeout(PATIENCE) {
                    Ok(line) => self.reported.push(line),
                    Err(_) => panic!("no line “{begins}” from the server, only {:?}", self.reported),
                },
            }
        }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        Request::new(self.address, method, path)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path).send()
    }

    /// `http://HOST:PORT` of this server's own pages.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Logs in; the answer is the cookie.
    pub(crate) fn log_in(&self, name: &str, password: &str) -> Answer {
        self.request("POST", "/login")
            .header("origin", &self.origin())
            .form(&[("name", name), ("password", password), ("next", "")])
            .send()
    }

    /// A cookie of the owner.
    pub(crate) fn cookie(&self) -> String {
        let answer = self.log_in(OWNER, PASSWORD);
        assert_eq!((answer.status, answer.header("location")), (303, "/"), "{}", answer.body);
        answer.cookie()
    }

    /// A token made on the machine.
    pub(crate) fn token(&self) -> String {
        output_of(self.data.path(), &["tokens", "create", "--actor", "ci", "--scope", "operate"], "")
    }

    pub(crate) fn cli(&self, args: &[&str]) -> Output {
        run(self.data.path(), args, "")
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`: the data directory, with whatever goes on in it, is all that is left.
    pub(crate) fn kill_hard(mut self) -> TempDir {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        std::mem::replace(&mut self.data, tempfile::tempdir().expect("a directory"))
    }

    /// Asks it to leave and gives its exit code.
    pub(crate) fn terminate(mut self) -> (Option<i32>, TempDir) {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        let child = &mut self.child;
        let status = wait_until("the server to leave", || {
            child.try_wait().expect("its status").ok_or_else(|| "it still runs".to_owned())
        });
        let data = std::mem::replace(&mut self.data, tempfile::tempdir().expect("a directory"));
        (status.code(), data)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        end_sessions(self.data.path());
    }
}

/// Sessions outlive their server, which a test's must not: ends every process that names its data directory.
pub(crate) fn end_sessions(data: &Path) {
    // Sockets of a data directory with a long path are elsewhere, and so are the names in their processes.
    if let Ok(elsewhere) = std::fs::read_to_string(data.join("run/where")) {
        let sockets = std::fs::read_dir(Path::new(&elsewhere).join("tmux"));
        for socket in sockets.into_iter().flatten().flatten() {
            // A server that is gone already is no fault.
            let _ = Command::new("tmux").arg("-S").arg(socket.path()).arg("kill-server").output();
        }
        let _ = std::fs::remove_dir_all(elsewhere);
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = processes_of(data);
        if left.is_empty() || Instant::now() > deadline {
            return;
        }
        for pid in left {
            if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                // It may be gone already.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Processes whose arguments or environment name a data directory: tmux servers, runners, agents.
fn processes_of(data: &Path) -> Vec<u32> {
    let name = format!("{}/", data.display());
    let names = |file: std::path::PathBuf| {
        let bytes = std::fs::read(file).unwrap_or_default();
        bytes.windows(name.len()).any(|window| window == name.as_bytes())
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid.filter(|pid| *pid != std::process::id()) else { continue };
        if names(entry.path().join("cmdline")) || names(entry.path().join("environ")) {
            found.push(pid);
        }
    }
    found
}

/// One request, built by hand.
pub(crate) struct Request {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    pub(crate) fn new(address: SocketAddr, method: &str, path: &str) -> Request {
        Request {
            address,
            method: method.into(),
            path: path.into(),
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_lowercase(), value.into()));
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Request {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(mut self, body: &str) -> Request {
        self.body = body.into();
        self.header("content-type", "application/json")
    }

    pub(crate) fn form(mut self, fields: &[(&str, &str)]) -> Request {
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        self.body = pairs.join("&");
        self.header("content-type", "application/x-www-form-urlencoded")
    }

    /// The headers of a websocket upgrade.
    pub(crate) fn upgrade(self) -> Request {
        self.header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    pub(crate) fn send(self) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("the server answers");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let given = |name: &str| self.headers.iter().any(|(have, _)| have == name);
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !given("host") {
            text.push_str(&format!("host: {}\r\n", self.address));
        }
        if !given("connection") {
            text.push_str("connection: close\r\n");
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("content-length: {}\r\n\r\n{}", self.body.len(), self.body));
        stream.write_all(text.as_bytes()).expect("it takes the request");
        Answer::read(BufReader::new(stream))
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    fn read(mut stream: BufReader<TcpStream>) -> Answer {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a status line");
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).expect("a header");
            match line.trim_end().split_once(": ") {
                Some((name, value)) => headers.insert(name.to_lowercase(), value.to_owned()),
                None => break,
            };
        }
        let mut body = Vec::new();
        // After an upgrade the connection stays open: its frames are not ours to read here.
        let length = headers.get("content-length").and_then(|length: &String| length.parse().ok());
        match length {
            _ if status == 101 => {}
            Some(length) => {
                stream.take(length).read_to_end(&mut body).expect("a body");
            }
            None => {
                stream.read_to_end(&mut body).expect("a body");
            }
        }
        Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    /// `name=value` of the cookie that was set.
    pub(crate) fn cookie(&self) -> String {
        self.header("set-cookie").split(';').next().unwrap_or_default().to_owned()
    }

    /// The body as JSON, whether it came in pieces or whole.
    pub(crate) fn json(&self) -> serde_json::Value {
        let text = self.body.find(['{', '[']).map_or("", |at| &self.body[at..]);
        let mut values = serde_json::Deserializer::from_str(text).into_iter();
        values.next().and_then(Result::ok).unwrap_or_default()
    }
}
