//! Everything the environment and the command line say, read in this one place.

mod names;

use std::env::VarError;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use opkit_domain::account_pool::Policy;
use opkit_domain::session::WallMode;

/// Read in the current directory.
const ENV_FILE: &str = ".env";

/// What `serve` needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) data: PathBuf,
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) public: Option<PublicUrl>,
    pub(crate) site: Option<PathBuf>,
}

/// Where people reach the server when a proxy stands before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    /// `https://opkit.example.org`, with the port unless it is the scheme's own.
    pub(crate) origin: String,
    /// The host without port, lower case.
    pub(crate) host: String,
    /// Cookies become `Secure`.
    pub(crate) https: bool,
}

impl PublicUrl {
    /// Takes `http(s)://host[:port]` with an optional closing slash.
    pub(crate) fn parse(text: &str) -> anyhow::Result<PublicUrl> {
        let wrong = || format!("“{text}” is not a public address. Write it as https://opkit.example.org");
        let uri: axum::http::Uri = text.trim().parse().ok().with_context(wrong)?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => bail!(wrong()),
        };
        let authority = uri.authority().with_context(wrong)?;
        if authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            bail!(wrong());
        }
        let host = authority.host().to_ascii_lowercase();
        let own_port = if https { 443 } else { 80 };
        let port = authority.port_u16().filter(|port| *port != own_port);
        let scheme = if https { "https" } else { "http" };
        let origin = match port {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        };
        Ok(PublicUrl { origin, host, https })
    }
}

/// Turns `127.0.0.1:3000` or `localhost:0` into an address.
pub(crate) fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let hint = || format!("“{text}” is not an address to listen on. Write it as 127.0.0.1:3000");
    text.to_socket_addrs().with_context(hint)?.next().with_context(hint)
}

/// Where the data is unless somebody says otherwise.
pub(crate) fn default_data() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/opkit");
    }
    match (std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME")) {
        (Some(base), _) if Path::new(&base).is_absolute() => PathBuf::from(base).join("opkit"),
        (_, Some(home)) => PathBuf::from(home).join(".local/share/opkit"),
        _ => PathBuf::from("/var/lib/opkit"),
    }
}

/// Makes a path absolute without asking whether it exists.
pub(crate) fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is not a path", path.display()))
}

/// The folder that `OPKIT_SITE` names.
pub(crate) fn site() -> Option<PathBuf> {
    std::env::var_os("OPKIT_SITE").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The kind of the caller's terminal.
pub(crate) fn terminal() -> Option<String> {
    std::env::var("TERM").ok().filter(|term| !term.is_empty())
}

/// The server and token of a remote command line, if both are given.
pub(crate) fn remote() -> Option<(String, String)> {
    Some((std::env::var("OPKIT_URL").ok()?, std::env::var("OPKIT_TOKEN").ok()?))
}

/// The engine's configuration. `build_id` names the site the server shows.
pub(crate) fn engine(data: &Path, build_id: &str) -> anyhow::Result<opkit_engine::Config> {
    Ok(opkit_engine::Config {
        data: data.to_owned(),
        session_binary: session_binary()?,
        build_id: build_id.to_owned(),
        cap: cap()?,
        agent_claude: std::env::var_os("OPKIT_CLAUDE").filter(|value| !value.is_empty()).map(PathBuf::from),
        wall: word("OPKIT_WALL", "enforced or hook_only")?.unwrap_or(WallMode::Enforced),
        account_policy: word("OPKIT_ACCOUNT_POLICY", "least_loaded or fill_first")?
            .unwrap_or(Policy::LeastLoaded),
        min_free: min_free()?,
    })
}

/// `opkit-session` beside our own executable; never one found on PATH.
pub(crate) fn session_binary() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("the server's own executable cannot be found")?;
    let beside = own.with_file_name("opkit-session");
    if !beside.is_file() {
        bail!(
            "opkit-session is missing: it belongs beside opkit, as {}. Build both with `cargo xtask build`",
            beside.display()
        );
    }
    Ok(beside)
}

/// A word of the environment, or of the `.env` file in the current directory.
fn word<T: std::str::FromStr>(name: &str, words: &str) -> anyhow::Result<Option<T>> {
    match variable(name)?.as_deref().map(str::trim) {
        None | Some("") => Ok(None),
        Some(text) => match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => bail!("{name} is “{text}”. It must be {words}"),
        },
    }
}

/// A variable of the environment, else of a `.env` file in the current directory.
fn variable(name: &str) -> anyhow::Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotUnicode(value)) => bail!("{name} is {value:?}, which is not UTF-8"),
        Err(VarError::NotPresent) => Ok(env_file()?.and_then(|text| dot_env(&text, name))),
    }
}

/// The text of the `.env` file, if there is one. What other programs keep in it need not be UTF-8.
fn env_file() -> anyhow::Result<Option<String>> {
    let file = Path::new(ENV_FILE);
    // A directory of this name is somebody else's.
    if !file.is_file() {
        return Ok(None);
    }
    let place =
        || format!("{} cannot be read", std::path::absolute(file).unwrap_or_else(|_| file.into()).display());
    let bytes = std::fs::read(file).with_context(place)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// `MAX_CONCURRENT_SESSIONS` of the environment, else of a `.env` file in the current directory.
fn cap() -> anyhow::Result<Option<u32>> {
    const NAME: &str = "MAX_CONCURRENT_SESSIONS";
    match variable(NAME)?.as_deref().map(str::trim) {
        None | Some("") => Ok(None),
        Some(text) => match text.parse() {
            Ok(cap) if cap > 0 => Ok(Some(cap)),
            _ => bail!("{NAME} is “{text}”. It must be a whole number from 1 on"),
        },
    }
}

/// `OPKIT_MIN_FREE_MB`: below so much free disk nothing new starts. Bytes.
fn min_free() -> anyhow::Result<Option<u64>> {
    const NAME: &str = "OPKIT_MIN_FREE_MB";
    match variable(NAME)?.as_deref().map(str::trim) {
        None | Some("") => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(megabytes) => Ok(Some(megabytes.saturating_mul(1 << 20))),
            Err(_) => bail!("{NAME} is “{text}”. It must be a whole number of megabytes"),
        },
    }
}

/// Refuses a `.env` file with names of ours that nobody knows; gives a sentence for each such variable of the
/// environment.
pub(crate) fn check_names() -> anyhow::Result<Vec<String>> {
    if let Some(text) = env_file()? {
        names::check_file(Path::new(ENV_FILE), &text)?;
    }
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    Ok(names::check_environment(set))
}

/// The last `NAME=value` of a `.env` file; quotes around the value are dropped.
fn dot_env(file: &str, name: &str) -> Option<String> {
    file.lines()
        .filter_map(|line| {
            let line = line.trim();
            let (key, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
            (key.trim() == name).then(|| value.trim().trim_matches(['"', '\'']).to_owned())
        })
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_urls() {
        let url = PublicUrl::parse("https://Opkit.Example.org/").unwrap();
        assert_eq!(
            (url.origin.as_str(), url.host.as_str()),
            ("https://opkit.example.org", "opkit.example.org")
        );
        assert!(url.https);
        assert_eq!(PublicUrl::parse("http://box:8080").unwrap().origin, "http://box:8080");
        for wrong in ["opkit.example.org", "ftp://x", "https://a@b", "https://x/path", "https://x/?q", ""] {
            assert!(PublicUrl::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_a_dot_env_file() {
        let file = "# note\nOTHER=1\nexport MAX_CONCURRENT_SESSIONS=\"7\"\n";
        assert_eq!(dot_env(file, "MAX_CONCURRENT_SESSIONS").as_deref(), Some("7"));
        assert_eq!(dot_env(file, "MISSING"), None);
    }
}
