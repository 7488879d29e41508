//! Which service of `OpenDAL` a scheme stands for, where its server is and who asks.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use opendal::layers::SimulateLayer;
use opendal::services::{Azblob, FsConfig, Gcs, SftpConfig, Webdav, Webhdfs};
use opendal::{Builder as _, Configurator, OperationContext, Operator};
use percent_encoding::percent_decode_str;

use super::place::Root;
use super::s3::Environment;
use crate::{Error, StorageOptions};

/// The port of the name node's HTTP, where the name has only that of its own protocol, or none.
const WEBHDFS_PORT: u16 = 9870;

/// A service, opened.
#[derive(Debug)]
pub(super) struct Service {
    /// Asks it.
    pub(super) operator: Operator,
    /// The host that its requests go to; empty if they are no HTTP.
    pub(super) host: Arc<str>,
    /// Whether keys only look like paths: everything below a prefix can be listed at once.
    pub(super) is_flat: bool,
    /// What it is besides.
    pub(super) kind: Kind,
    /// How it is connected to, if that is by a program.
    connecting: Option<SftpConfig>,
}

impl Service {
    /// Asks over a connection of its own, if connections are shared by those who ask at a time.
    pub(super) fn apart(&self) -> opendal::Result<Operator> {
        match &self.connecting {
            Some(config) => unasking(config.clone()),
            None => Ok(self.operator.clone()),
        }
    }
}

/// What a service is, as far as it matters to who asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A web server, whose entity tags are quoted.
    Web,
    /// Its connections are programs that are started.
    Program,
    /// Keys are paths of this machine.
    Local,
    /// It sends who reads to the nodes that hold the data.
    Cluster,
    /// Its objects are in buckets, and have sums.
    Buckets,
    /// None of these.
    Other,
}

/// The options of a service, the later ones over the earlier.
struct Options<'a> {
    fields: HashMap<String, String>,
    environment: Environment<'a>,
}

impl Options<'_> {
    /// Sets what one of these variables says, unless the storage options do.
    fn take_from(&mut self, field: &str, variables: &[&str]) {
        let value =
            variables.iter().find_map(|name| (self.environment)(name)).filter(|v| !v.is_empty());
        if let Some(value) = value {
            self.fields.entry(field.to_owned()).or_insert(value);
        }
    }

    /// Sets it whatever else says.
    fn set(&mut self, field: &str, value: impl Into<String>) {
        self.fields.insert(field.to_owned(), value.into());
    }

    /// Sets it unless something else does.
    fn default(&mut self, field: &str, value: impl Into<String>) {
        self.fields.entry(field.to_owned()).or_insert_with(|| value.into());
    }

    fn get(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }
}

/// What `webdav://user:password@host:1` says besides its host.
struct Authority<'a> {
    user: Option<&'a str>,
    password: Option<&'a str>,
    /// With its port.
    host: &'a str,
}

impl<'a> Authority<'a> {
    fn of(text: &'a str) -> Self {
        let Some((login, host)) = text.rsplit_once('@') else {
            return Self { user: None, password: None, host: text };
        };
        match login.split_once(':') {
            Some((user, password)) => Self { user: Some(user), password: Some(password), host },
            None => Self { user: Some(login), password: None, host },
        }
    }
}

/// Opens the service that a root's scheme stands for; `None` if there is none.
pub(super) fn open(
    root: &Root,
    storage: &StorageOptions,
    environment: Environment<'_>,
) -> Result<Option<Service>, Error> {
    let scheme = root.scheme();
    let service = match scheme.as_str() {
        "gs" | "gcs" => "gcs",
        "az" | "azure" | "azblob" | "abfs" | "abfss" | "wasb" | "wasbs" => "azblob",
        "webdav" | "webdavs" | "dav" | "davs" => "webdav",
        "sftp" => "sftp",
        "webhdfs" | "swebhdfs" | "hdfs" => "webhdfs",
        "file" => "fs",
        _ => return Ok(None),
    };
    let mut options = Options { fields: storage.of(service), environment };
    let is_local = service == "fs";
    let bad = |reason: &str| Error::refused(root.text.as_str(), reason);
    match root.authority() {
        "" if !is_local => return Err(bad("the name has no bucket or host after its scheme")),
        // RFC 8089, section 2.
        host if is_local && !["", "localhost"].contains(&host) => {
            return Err(bad("files of other hosts are not read: file:/// has three slashes"));
        }
        _ => {}
    }
    match service {
        "gcs" => google(&mut options, root.authority()),
        "azblob" => azure(&mut options, root.authority()).map_err(bad)?,
        "webdav" => webdav(&mut options, &scheme, root.authority()),
        "sftp" => sftp(&mut options, root.authority()).map_err(bad)?,
        "webhdfs" => webhdfs(&mut options, &scheme, root.authority()),
        _ => options.set("root", "/"),
    }
    let host =
        url::Url::parse(options.get("endpoint")).ok().and_then(|url| Some(url.host_str()?.into()));
    let fields = std::mem::take(&mut options.fields);
    let not_opened = |error: opendal::Error| bad(error.message());
    let is_program = service == "sftp";
    let connecting = is_program.then(|| SftpConfig::from_iter(fields.clone()));
    let connecting = connecting.transpose().map_err(not_opened)?;
    let operator = match &connecting {
        Some(config) => unasking(config.clone()),
        None => operator(service, fields),
    };
    let operator = operator.map_err(not_opened)?;
    let kind = match service {
        "webdav" => Kind::Web,
        "sftp" => Kind::Program,
        "fs" => Kind::Local,
        "webhdfs" => Kind::Cluster,
        "gcs" | "azblob" => Kind::Buckets,
        _ => Kind::Other,
    };
    let is_flat = kind == Kind::Buckets;
    let host = host.unwrap_or_else(|| "".into());
    Ok(Some(Service { operator, host, is_flat, kind, connecting }))
}

fn operator(service: &str, fields: HashMap<String, String>) -> opendal::Result<Operator> {
    match service {
        "gcs" => Operator::from_iter::<Gcs>(fields),
        "azblob" => Operator::from_iter::<Azblob>(fields),
        "webdav" => Operator::from_iter::<Webdav>(fields),
        "webhdfs" => Operator::from_iter::<Webhdfs>(fields),
        _ => unasking(FsConfig::from_iter(fields)?),
    }
}

/// Which leaves it to who lists to ask what links lead to: by itself it would ask about one after the
/// other, drop those that lead nowhere, and end at one that may not be followed.
fn unasking(config: impl Configurator) -> opendal::Result<Operator> {
    let service = config.into_builder().build()?;
    let operator = Operator::from_parts(OperationContext::default(), Arc::new(service));
    Ok(operator.layer(SimulateLayer::default()))
}

fn google(options: &mut Options<'_>, bucket: &str) {
    options.set("bucket", bucket);
    // As JSON, which is what the file of a service account holds, or encoded for an environment.
    if options.get("credential").trim_start().starts_with('{') {
        options.set("credential", BASE64_STANDARD.encode(options.get("credential")));
    }
    // What gcsfs is told to sign nothing.
    if options.get("token") == "anon" {
        options.fields.remove("token");
        options.set("skip_signature", "true");
    }
    if let Some(emulator) = (options.environment)("STORAGE_EMULATOR_HOST").filter(|v| !v.is_empty())
    {
        let is_url = emulator.contains("://");
        options.default("endpoint", if is_url { emulator } else { format!("http://{emulator}") });
        options.default("skip_signature", "true");
    }
    options.default("endpoint", "https://storage.googleapis.com");
}

/// `az://container`, or as in Hadoop `abfs://container@account.dfs.core.windows.net`.
fn azure(options: &mut Options<'_>, authority: &str) -> Result<(), &'static str> {
    let (container, host) = match authority.split_once('@') {
        Some((container, host)) => (container, Some(host)),
        None => (authority, None),
    };
    options.set("container", container);
    if let Some(host) = host {
        let account = host.split('.').next().unwrap_or_default();
        options.set("account_name", account);
        // Objects of a data lake are blobs too, at the other of its two hosts.
        options.default("endpoint", format!("https://{}", host.replacen(".dfs.", ".blob.", 1)));
    }
    options.take_from("connection_string", &["AZURE_STORAGE_CONNECTION_STRING"]);
    if let Some(text) = options.fields.remove("connection_string") {
        connection(options, &text);
    }
    let account = ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"];
    options.take_from("account_name", &account);
    let key = ["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"];
    options.take_from("account_key", &key);
    options.take_from("sas_token", &["AZURE_STORAGE_SAS_TOKEN"]);
    options.take_from("endpoint", &["AZURE_STORAGE_ENDPOINT"]);
    // As the portal shows it: the query of a URL.
    if let Some(query) = options.get("sas_token").strip_prefix('?').map(str::to_owned) {
        options.set("sas_token", query);
    }
    if options.get("endpoint").is_empty() {
        if options.get("account_name").is_empty() {
            return Err(
                "no storage account: set AZURE_STORAGE_ACCOUNT, or name it: abfs://container@account.dfs.core.windows.net",
            );
        }
        options.set(
            "endpoint",
            format!("https://{}.blob.core.windows.net", options.get("account_name")),
        );
    }
    Ok(())
}

/// Takes what a connection string says, unless the storage options do.
fn connection(options: &mut Options<'_>, text: &str) {
    let pairs: HashMap<_, _> =
        text.split(';').filter_map(|pair| pair.trim().split_once('=')).collect();
    for (name, field) in [
        ("AccountName", "account_name"),
        ("AccountKey", "account_key"),
        ("SharedAccessSignature", "sas_token"),
        ("BlobEndpoint", "endpoint"),
    ] {
        if let Some(value) = pairs.get(name) {
            options.default(field, *value);
        }
    }
    if let (Some(account), Some(suffix)) = (pairs.get("AccountName"), pairs.get("EndpointSuffix")) {
        let protocol = pairs.get("DefaultEndpointsProtocol").unwrap_or(&"https");
        options.default("endpoint", format!("{protocol}://{account}.blob.{suffix}"));
    }
}

fn webdav(options: &mut Options<'_>, scheme: &str, authority: &str) {
    let Authority { user, password, host } = Authority::of(authority);
    let protocol = if scheme.ends_with('s') { "https" } else { "http" };
    options.set("endpoint", format!("{protocol}://{host}"));
    for (field, value) in [("username", user), ("password", password)] {
        if let Some(value) = value {
            options.set(field, percent_decode_str(value).decode_utf8_lossy());
        }
    }
}

/// What a shell takes for more than text: `~/.ssh/config` may have one run a command with the user's name.
const NO_USER: &str = "'\"`$;&<>|(){}";

/// Keys, ports and hosts are those of `~/.ssh/config`, unless options say otherwise.
fn sftp(options: &mut Options<'_>, authority: &str) -> Result<(), &'static str> {
    let Authority { user, host, .. } = Authority::of(authority);
    // They are words of `ssh`, to which what begins with a dash is an option, and any may be a program to run.
    let is_word = |word: &str| !word.starts_with('-') && !word.contains(char::is_control);
    let is_of_host = |c: char| c.is_ascii_alphanumeric() || "._:%[]-".contains(c);
    let is_named = !host.rsplit_once(':').map_or(host, |(name, _port)| name).is_empty();
    if !is_named || !is_word(host) || !host.chars().all(is_of_host) {
        return Err("a host has letters, digits and ._:%[]- in its name, and begins with no dash");
    }
    options.set("endpoint", format!("ssh://{host}"));
    options.set("root", "/");
    if let Some(user) = user {
        let is_odd = |c: char| c.is_whitespace() || NO_USER.contains(c);
        // At the end of the name it quotes what follows.
        if !is_word(user) || user.contains(is_odd) || user.ends_with('\\') {
            return Err("a user's name has no blanks or quotes, nothing else that a shell \
                        takes for more than text, begins with no dash and ends with no \\");
        }
        options.set("user", user);
    }
    Ok(())
}

fn webhdfs(options: &mut Options<'_>, scheme: &str, authority: &str) {
    let Authority { user, host, .. } = Authority::of(authority);
    let protocol = if scheme == "swebhdfs" { "https" } else { "http" };
    let server = match host.split_once(':') {
        // The port of an hdfs:// name is not that of HTTP.
        Some((server, _)) if scheme == "hdfs" => format!("{server}:{WEBHDFS_PORT}"),
        None => format!("{host}:{WEBHDFS_PORT}"),
        Some(_) => host.to_owned(),
    };
    options.set("endpoint", format!("{protocol}://{server}"));
    options.set("root", "/");
    if let Some(user) = user {
        options.set("user_name", user);
    }
    // A token says who asks. Without either it is who runs this, as with Hadoop's own clients.
    if options.get("delegation").is_empty() {
        options.take_from("user_name", &["HADOOP_USER_NAME"]);
        if let Some(user) = uzers::get_effective_username() {
            options.default("user_name", user.to_string_lossy());
        }
    }
}
