//! HTTP for the command line: over the control socket, or to OPKIT_URL with OPKIT_TOKEN.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A merge or a registration of a large repository may take its time.
const PATIENCE: Duration = Duration::from_secs(300);
const LARGEST_ANSWER: usize = 64 << 20;

/// Where the server is.
pub(super) struct Client {
    way: Way,
}

enum Way {
    Socket(PathBuf),
    Remote { address: String, token: String },
}

/// What a call came to, for those who can also do without a server.
pub(super) enum Reached {
    Yes(Value),
    NoServer,
}

impl Client {
    pub(super) fn new(data: &Path) -> anyhow::Result<Client> {
        if let Some((url, token)) = crate::config::remote() {
            let rest = url.trim_end_matches('/').strip_prefix("http://");
            let Some(address) = rest.filter(|rest| !rest.contains('/')) else {
                bail!("OPKIT_URL is “{url}”. It must be http://HOST:PORT; for https use a tunnel");
            };
            let address = if address.contains(':') { address.to_owned() } else { format!("{address}:80") };
            return Ok(Client { way: Way::Remote { address, token } });
        }
        // A run directory with too long a path is elsewhere, and `where` says so.
        let run = data.join("run");
        let run = match std::fs::read_to_string(run.join("where")) {
            Ok(elsewhere) => PathBuf::from(elsewhere.trim()),
            Err(_) => run,
        };
        Ok(Client { way: Way::Socket(run.join("control.sock")) })
    }

    /// Calls and expects a server.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        match self.try_call(method, path, body).await? {
            Reached::Yes(value) => Ok(value),
            Reached::NoServer => Err(self.no_server()),
        }
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        self.call(Method::POST, path, Some(body)).await
    }

    pub(super) fn no_server(&self) -> anyhow::Error {
        match &self.way {
            Way::Socket(path) => {
                anyhow!("no server is running here ({}). Start it with `opkit serve`", path.display())
            }
            Way::Remote { address, .. } => anyhow!("no server answers at {address}"),
        }
    }

    /// Calls, and says when no server is there to call.
    pub(super) async fn try_call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Reached> {
        let Some(bytes) = self.fetch(method, path, body).await? else { return Ok(Reached::NoServer) };
        if bytes.is_empty() {
            return Ok(Reached::Yes(Value::Null));
        }
        serde_json::from_slice(&bytes).map(Reached::Yes).context("the server's answer is not JSON")
    }

    /// The bytes of an answer; none if no server is there.
    pub(super) async fn fetch(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Option<Bytes>> {
        let mut request = Request::builder().method(method).uri(path);
        let bytes = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Bytes::from(serde_json::to_vec(&body)?)
            }
            None => Bytes::new(),
        };
        let answer = match &self.way {
            Way::Socket(socket) => match UnixStream::connect(socket).await {
                Ok(stream) => {
                    send(stream, request.header(header::HOST, "localhost").body(Full::new(bytes))?).await
                }
                Err(error) => return no_connection(&error, socket).map(|()| None),
            },
            Way::Remote { address, token } => {
                // Never "no server" here: what answers then is this machine, which nobody asked.
                let stream = TcpStream::connect(address).await.map_err(|_| self.no_server())?;
                let request = request.header(header::HOST, address);
                let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
                send(stream, request.body(Full::new(bytes))?).await
            }
        };
        let (status, bytes) = answer?;
        if status.is_success() { Ok(Some(bytes)) } else { Err(refusal(status, &bytes)) }
    }
}

/// Ok when simply nobody listens.
fn no_connection(error: &std::io::Error, socket: &Path) -> anyhow::Result<()> {
    use std::io::ErrorKind;
    let kind = error.kind();
    // A path too long for a socket is refused as invalid input: no server can listen there either.
    if matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::InvalidInput) {
        return Ok(());
    }
    if kind == ErrorKind::PermissionDenied {
        bail!(
            "{} belongs to another user. Run this as the user that runs the server, or as root",
            socket.display()
        );
    }
    bail!("the control socket {} cannot be used: {error}", socket.display())
}

async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> anyhow::Result<(StatusCode, Bytes)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let exchange = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| anyhow!("the answer broke off: {error}"))?;
        Ok::<_, anyhow::Error>((status, body.to_bytes()))
    };
    tokio::time::timeout(PATIENCE, exchange)
        .await
        .context("the server took too long to answer")?
        .context("the connection to the server broke off")
}

/// The sentence of a problem document.
fn refusal(status: StatusCode, bytes: &[u8]) -> anyhow::Error {
    let problem: Option<Value> = serde_json::from_slice(bytes).ok();
    match problem.as_ref().and_then(|problem| problem["detail"].as_str()) {
        Some(detail) => anyhow!("{}", super::output::plain(detail.trim_end_matches('.'))),
        None => anyhow!("the server refused: {status}"),
    }
}
