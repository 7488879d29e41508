//! Where a bucket is and who asks: storage options, then the environment, then the files of the AWS tools.

use std::collections::HashMap;
use std::path::PathBuf;

use reqsign_aws_v4::{Credential, DefaultCredentialProvider, StaticCredentialProvider};
use reqsign_core::ProvideCredentialChain;

use crate::StorageOptions;

/// The variables of a process.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The region of a server that knows none, and of AWS where nothing names another.
const REGION: &str = "us-east-1";

/// How long a restored copy is to stay, unless the options say otherwise.
const RESTORE_DAYS: u32 = 1;

/// How a bucket is reached.
#[derive(Debug)]
pub(super) struct Settings {
    /// The region that requests are signed for.
    pub(super) region: String,
    bucket: String,
    endpoint: Option<String>,
    hosts: Option<bool>,
    /// Whether requests are signed.
    pub(super) signed: bool,
    /// Whether who asks agrees to pay for the answers, as some buckets demand.
    pub(super) pays: bool,
    /// Days that a restored copy stays.
    pub(super) restore_days: u32,
    /// `Standard`, `Bulk` or `Expedited`.
    pub(super) restore_tier: String,
    profile: Option<String>,
    keys: Option<(String, String, Option<String>)>,
}

impl Settings {
    /// For this bucket.
    ///
    /// # Errors
    /// What is wrong with an option.
    pub(super) fn of(
        bucket: &str,
        options: &StorageOptions,
        environment: Environment<'_>,
    ) -> Result<Self, String> {
        let mut options = options.of("s3");
        let mut option = |name: &str| options.remove(name);
        let variable = |names: &[&str]| {
            names.iter().find_map(|name| environment(name).filter(|v| !v.is_empty()))
        };
        let profile = option("profile");
        let section = profile
            .clone()
            .or_else(|| variable(&["AWS_PROFILE", "AWS_DEFAULT_PROFILE"]))
            .unwrap_or_else(|| "default".to_owned());
        let file = profile_section(&section, environment);
        let region = option("region")
            .or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]))
            .or_else(|| file.get("region").cloned())
            .unwrap_or_else(|| REGION.to_owned());
        let endpoint = option("endpoint")
            .or_else(|| variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]))
            .or_else(|| file.get("endpoint_url").cloned());
        let hosts = option("virtual_host_style").map(|text| is_true(&text));
        let unsigned = option("skip_signature")
            .or_else(|| variable(&["AWS_SKIP_SIGNATURE", "AWS_NO_SIGN_REQUEST"]));
        let signed = !unsigned.is_some_and(|text| is_true(&text));
        let payer = option("request_payer").or_else(|| variable(&["AWS_REQUEST_PAYER"]));
        let keys =
            if signed { both(["access_key_id", "secret_access_key"], &mut option)? } else { None };
        // A secret alone is nobody's: keys may come from elsewhere.
        let is_given = profile.is_none() && variable(&["AWS_ACCESS_KEY_ID"]).is_some();
        if signed && keys.is_none() && is_given {
            both(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"], |name| variable(&[name]))?;
        }
        let base = base(bucket, &region, endpoint.as_deref(), hosts)?;
        let [allow_http, use_ssl] =
            ["allow_http", "use_ssl"].map(|name| option(name).map(|text| is_true(&text)));
        encrypted_as_told(&base, allow_http, use_ssl)?;
        Ok(Self {
            bucket: bucket.to_owned(),
            endpoint,
            hosts,
            signed,
            pays: payer.is_some_and(|text| text == "requester" || is_true(&text)),
            restore_days: match option("restore_days") {
                None => RESTORE_DAYS,
                Some(text) => {
                    text.parse().map_err(|_| format!("restore_days={text} is no number"))?
                }
            },
            restore_tier: option("restore_tier").unwrap_or_else(|| "Standard".to_owned()),
            keys: keys.map(|(id, secret)| (id, secret, option("session_token"))),
            region,
            profile,
        })
    }

    /// Scheme, host and, if buckets are folders there, the bucket; no slash at the end.
    pub(super) fn base(&self, region: &str) -> String {
        base(&self.bucket, region, self.endpoint.as_deref(), self.hosts)
            .expect("what can be wrong was seen when the settings were read")
    }

    /// Where keys come from, in the order of the AWS tools.
    pub(super) fn credentials(&self) -> ProvideCredentialChain<Credential> {
        let mut usual = DefaultCredentialProvider::builder();
        if let Some(profile) = &self.profile {
            usual = usual.with_profile(profile);
        }
        let chain = ProvideCredentialChain::new().push(usual.build());
        let Some((id, secret, token)) = &self.keys else { return chain };
        let mut given = StaticCredentialProvider::new(id, secret);
        if let Some(token) = token {
            given = given.with_session_token(token);
        }
        chain.push_front(given)
    }
}

/// A key's number and its secret: neither is of use alone, and other keys are not what was meant.
fn both(
    names: [&str; 2],
    mut value: impl FnMut(&str) -> Option<String>,
) -> Result<Option<(String, String)>, String> {
    let given = names.map(&mut value);
    let [id, secret] = names;
    match given {
        [Some(_), None] => Err(format!("{id} is given without {secret}")),
        [None, Some(_)] => Err(format!("{secret} is given without {id}")),
        [given_id, given_secret] => Ok(given_id.zip(given_secret)),
    }
}

/// Where the bucket's objects are: on AWS in the bucket's own host, elsewhere
/// in a folder of the endpoint, unless `hosts` says which.
fn base(
    bucket: &str,
    region: &str,
    endpoint: Option<&str>,
    hosts: Option<bool>,
) -> Result<String, String> {
    if bucket.is_empty() || bucket.contains(['@', '?', '#', ' ', '\\', '%']) {
        return Err(format!("{bucket:?} is no name of a bucket"));
    }
    let aws = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    let server = match endpoint {
        Some(endpoint) if endpoint.contains("://") => endpoint.trim_end_matches('/').to_owned(),
        Some(endpoint) => format!("https://{}", endpoint.trim_end_matches('/')),
        None => format!("https://s3.{region}.{aws}"),
    };
    // A dot in the bucket's name would not match the certificate.
    let own_host = hosts.unwrap_or(endpoint.is_none() && !bucket.contains('.'));
    let (scheme, host) = server.split_once("://").ok_or("the endpoint is no URL")?;
    Ok(if own_host { format!("{scheme}://{bucket}.{host}") } else { format!("{server}/{bucket}") })
}

/// Whether requests are encrypted is the endpoint's to say; other libraries want it said twice.
fn encrypted_as_told(
    base: &str,
    allow_http: Option<bool>,
    use_ssl: Option<bool>,
) -> Result<(), String> {
    let scheme = base.split_once("://").map_or("", |(scheme, _)| scheme);
    match scheme.eq_ignore_ascii_case("http") {
        true if allow_http == Some(false) => {
            Err("allow_http is false, but the endpoint begins with http://".to_owned())
        }
        true if use_ssl == Some(true) => {
            Err("use_ssl is true, but the endpoint begins with http://".to_owned())
        }
        false if use_ssl == Some(false) => Err(format!(
            "use_ssl is false, but requests go to {scheme}://: an endpoint that is not encrypted \
             is written http://HOST:PORT"
        )),
        _ => Ok(()),
    }
}

fn is_true(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "yes")
}

/// What `~/.aws/config` says of a profile; nothing if there is no such file.
fn profile_section(profile: &str, environment: Environment<'_>) -> HashMap<String, String> {
    let home = || environment("HOME").map(|home| PathBuf::from(home).join(".aws/config"));
    let path = environment("AWS_CONFIG_FILE").map(PathBuf::from).or_else(home);
    let text = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    section(&text, profile)
}

/// The settings of one profile; those that are indented belong to a sub-section.
fn section(text: &str, profile: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let title = title.trim();
            inside = title.strip_prefix("profile").map_or(title, str::trim) == profile;
        } else if inside
            && !line.starts_with([' ', '\t', '#', ';'])
            && let Some((name, value)) = line.split_once('=')
        {
            found.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(options: &[(&str, &str)], variables: &[(&str, &str)]) -> Settings {
        tried(options, variables).unwrap()
    }

    fn tried(options: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<Settings, String> {
        let options = StorageOptions::new(options.iter().copied()).unwrap();
        let environment = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|&(_, value)| value.to_owned())
        };
        Settings::of("b", &options, &environment)
    }

    #[test]
    fn half_a_key_is_no_key() {
        let (id, secret) = (("access_key_id", "a"), ("s3_secret", "b"));
        assert!(settings(&[id, secret], &[]).keys.is_some());
        let error = |options: &[_], variables: &[_]| tried(options, variables).unwrap_err();
        assert_eq!(error(&[id], &[]), "access_key_id is given without secret_access_key");
        assert_eq!(error(&[secret], &[]), "secret_access_key is given without access_key_id");
        let variables = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "")];
        let reason = "AWS_ACCESS_KEY_ID is given without AWS_SECRET_ACCESS_KEY";
        assert_eq!(error(&[], &variables), reason);
        for options in [&[id, secret][..], &[("anon", "true")], &[("profile", "p")]] {
            assert!(tried(options, &variables).is_ok(), "the variables are not asked for");
        }
        assert!(tried(&[("anon", "true"), ("key", "a file of SFTP")], &[]).is_ok());
        assert!(tried(&[], &[("AWS_SECRET_ACCESS_KEY", "b")]).is_ok(), "it is passed over");
    }

    #[test]
    fn what_is_said_of_encryption_agrees_with_the_endpoint() {
        let plain = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")];
        for agrees in [("allow_http", "true"), ("AWS_ALLOW_HTTP", "1"), ("use_ssl", "false")] {
            assert!(tried(&[agrees], &plain).is_ok(), "{agrees:?}");
        }
        for agrees in [("allow_http", "true"), ("allow_http", "false"), ("use_ssl", "true")] {
            assert!(tried(&[agrees], &[]).is_ok(), "{agrees:?}");
        }
        for (disagrees, variables) in [
            (("allow_http", "false"), &plain[..]),
            (("use_ssl", "true"), &plain[..]),
            (("use_ssl", "false"), &[]),
            (("use_ssl", "false"), &[("AWS_ENDPOINT_URL", "127.0.0.1:9000")]),
        ] {
            let reason = tried(&[disagrees], variables).unwrap_err();
            assert!(reason.starts_with(disagrees.0), "{reason}");
        }
    }

    #[test]
    fn options_come_before_the_environment() {
        let variables = [("AWS_REGION", "eu-west-1"), ("AWS_ENDPOINT_URL", "http://h:9000/")];
        assert_eq!(settings(&[], &[]).base("us-east-1"), "https://b.s3.us-east-1.amazonaws.com");
        assert_eq!(
            settings(&[], &variables[..1]).base("eu-west-1"),
            "https://b.s3.eu-west-1.amazonaws.com"
        );
        assert_eq!(settings(&[], &variables).base("x"), "http://h:9000/b");
        let given = settings(&[("endpoint", "h2"), ("aws_region", "x")], &variables);
        assert_eq!((given.base("x").as_str(), given.region.as_str()), ("https://h2/b", "x"));
        assert!(!settings(&[], &[("AWS_SKIP_SIGNATURE", "true")]).signed);
        let payer = [("AWS_REQUEST_PAYER", "requester")];
        assert!(settings(&[], &payer).pays && !settings(&[], &[]).pays);
        assert!(!settings(&[("requester_pays", "false")], &payer).pays);
    }

    #[test]
    fn buckets_have_hosts_of_their_own_where_certificates_allow() {
        assert_eq!(base("a.b", "r", None, None).unwrap(), "https://s3.r.amazonaws.com/a.b");
        assert_eq!(
            base("b", "cn-north-1", None, None).unwrap(),
            "https://b.s3.cn-north-1.amazonaws.com.cn"
        );
        assert_eq!(base("b", "r", Some("http://h"), Some(true)).unwrap(), "http://b.h");
        assert!(base("", "r", None, None).is_err());
    }

    #[test]
    fn a_profile_is_one_section_without_its_sub_sections() {
        let text =
            "[default]\nregion = a\n[profile work]\ns3 =\n  region = c\nregion=b\n# region = d\n";
        assert_eq!(section(text, "work")["region"], "b");
        assert_eq!(section(text, "default")["region"], "a");
        assert!(section(text, "other").is_empty());
    }
}
