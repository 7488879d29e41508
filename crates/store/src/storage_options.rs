//! Options of object stores by name: each store's own, and what other libraries call them.

use std::collections::BTreeMap;
#[cfg(any(feature = "object", feature = "web"))]
use std::collections::HashMap;
use std::fmt;

use crate::Error;

/// What a kind of store can be told.
struct Known {
    #[cfg_attr(
        not(any(feature = "object", feature = "web")),
        expect(dead_code, reason = "stores ask by it")
    )]
    service: &'static str,
    /// What stands before an option that is for this store alone.
    prefixes: &'static [&'static str],
    /// The names of each option, the store's own first.
    options: &'static [&'static [&'static str]],
}

/// The other names are those of boto, obstore and the file systems of fsspec, where they mean the same.
const KNOWN: [Known; 7] = [
    Known {
        service: "s3",
        prefixes: &["s3", "aws"],
        options: &[
            &["region", "default_region", "region_name"],
            &["endpoint", "endpoint_url"],
            &["access_key_id", "key"],
            &["secret_access_key", "secret"],
            &["session_token", "token"],
            &["profile", "profile_name"],
            &["skip_signature", "anonymous", "anon"],
            &["virtual_host_style", "enable_virtual_host_style", "virtual_hosted_style_request"],
            &["restore_days"],
            &["restore_tier"],
            &["request_payer", "requester_pays"],
            &["allow_http"],
            &["use_ssl"],
        ],
    },
    Known {
        service: "gcs",
        prefixes: &["gcs", "google"],
        options: &[
            &["endpoint", "endpoint_url"],
            &["credential", "service_account_key"],
            &["credential_path", "application_credentials", "service_account_path"],
            &["service_account"],
            &["token"],
            &["scope"],
            &["skip_signature", "allow_anonymous", "anon"],
            &["disable_vm_metadata"],
            &["disable_config_load"],
        ],
    },
    Known {
        service: "azblob",
        prefixes: &["azblob", "azure", "azure_storage"],
        options: &[
            &["endpoint", "endpoint_url"],
            &["account_name"],
            &["account_key", "access_key", "master_key"],
            &["sas_token", "sas_key"],
            &["connection_string"],
            &["skip_signature", "anon"],
            &["encryption_key"],
            &["encryption_key_sha256"],
            &["encryption_algorithm"],
        ],
    },
    Known {
        service: "webdav",
        prefixes: &["webdav"],
        options: &[&["username"], &["password"], &["token"]],
    },
    Known {
        service: "sftp",
        prefixes: &["sftp"],
        options: &[&["user", "username"], &["key", "key_filename"], &["known_hosts_strategy"]],
    },
    Known {
        service: "webhdfs",
        prefixes: &["webhdfs"],
        options: &[&["user_name", "user"], &["delegation"], &["disable_list_batch"]],
    },
    // A token that is meant for another store must not be shown to a web server: no short names.
    Known { service: "http", prefixes: &[], options: &[&["http_origin"], &["http_token"]] },
];

impl Known {
    /// How an option with these names may be written, what is for this store alone first.
    fn spellings(&self, names: &'static [&'static str]) -> impl Iterator<Item = String> {
        let own = self
            .prefixes
            .iter()
            .flat_map(move |prefix| names.iter().map(move |name| format!("{prefix}_{name}")));
        own.chain(names.iter().map(|&name| name.to_owned()))
    }
}

/// Options of object stores, over those of the environment.
///
/// An option holds for every store that knows it; with the store before its name
/// (`gcs_endpoint`), for that one alone. Capitals are as small letters: `AWS_REGION`.
///
/// ```
/// use nearfirst_store::StorageOptions;
///
/// let mut options = StorageOptions::default();
/// options.insert("endpoint", "http://127.0.0.1:9000")?;
/// let error = options.insert("endpont", "http://127.0.0.1:9000").unwrap_err();
/// assert!(error.to_string().ends_with("did you mean endpoint?"));
/// # Ok::<(), nearfirst_store::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StorageOptions(BTreeMap<String, String>);

impl StorageOptions {
    /// Of names and values.
    ///
    /// # Errors
    /// As [`StorageOptions::insert`].
    pub fn new(
        given: impl IntoIterator<Item = (impl AsRef<str>, impl Into<String>)>,
    ) -> Result<Self, Error> {
        let mut options = Self::default();
        for (name, value) in given {
            options.insert(name.as_ref(), value)?;
        }
        Ok(options)
    }

    /// Sets an option.
    ///
    /// # Errors
    /// [`Error::Refused`] of a name that no store knows.
    pub fn insert(&mut self, name: &str, value: impl Into<String>) -> Result<(), Error> {
        let small = name.to_ascii_lowercase();
        if !spellings().any(|known| known == small) {
            return Err(unknown(name));
        }
        self.0.insert(small, value.into());
        Ok(())
    }

    /// Those that a service knows, by its own names.
    #[cfg(any(feature = "object", feature = "web"))]
    pub(crate) fn of(&self, service: &str) -> HashMap<String, String> {
        let known = KNOWN.iter().find(|known| known.service == service);
        let known = known
            .into_iter()
            .flat_map(|known| known.options.iter().map(|names| (names[0], known.spellings(names))));
        known
            .filter_map(|(name, mut spellings)| {
                let value = spellings.find_map(|spelling| self.0.get(&spelling))?;
                Some((name.to_owned(), value.clone()))
            })
            .collect()
    }
}

impl fmt::Debug for StorageOptions {
    /// Without the values: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Everything that an option may be called.
fn spellings() -> impl Iterator<Item = String> {
    KNOWN.iter().flat_map(|known| known.options.iter().flat_map(|names| known.spellings(names)))
}

fn unknown(name: &str) -> Error {
    let small = name.to_ascii_lowercase();
    let distance = |known: &String| strsim::levenshtein(&small, known);
    let nearest =
        spellings().min_by_key(distance).filter(|known| distance(known) <= name.len() / 3);
    let reason = match nearest {
        Some(nearest) => format!("no store knows this option; did you mean {nearest}?"),
        None => {
            "no store knows this option; there are region, endpoint, access_key_id and others: \
                 section 6 of the guide has them all"
                .to_owned()
        }
    };
    Error::refused(name, reason)
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "object")]
    use opendal::Configurator;
    #[cfg(feature = "object")]
    use opendal::services::{AzblobConfig, GcsConfig, SftpConfig, WebdavConfig, WebhdfsConfig};

    use super::*;

    #[test]
    fn an_unknown_name_is_told_with_the_nearest_known_one() {
        for (name, nearest) in [
            ("endpont", Some("endpoint")),
            ("EndPont", Some("endpoint")),
            ("acces_key_id", Some("access_key_id")),
            ("aws_secret_acess_key", Some("aws_secret_access_key")),
            ("bucket", None),
            ("requester_payz", Some("requester_pays")),
            ("cache_regions", None),
            ("", None),
        ] {
            let error = StorageOptions::new([(name, "x")]).unwrap_err().to_string();
            let ending = nearest.map_or("section 6 of the guide has them all".to_owned(), |name| {
                format!("mean {name}?")
            });
            assert!(error.starts_with(name) && error.ends_with(&ending), "{name}: {error}");
        }
    }

    #[cfg(feature = "object")]
    #[test]
    fn each_store_gets_what_it_knows_by_its_own_name() {
        let given = [
            ("key", "a"),
            ("AWS_SECRET_ACCESS_KEY", "b"),
            ("endpoint_url", "c"),
            ("gcs_endpoint", "d"),
            ("google_application_credentials", "e"),
            ("azure_storage_account_key", "f"),
        ];
        let options = StorageOptions::new(given).unwrap();
        for (service, expected) in [
            ("s3", &[("access_key_id", "a"), ("secret_access_key", "b"), ("endpoint", "c")][..]),
            ("gcs", &[("endpoint", "d"), ("credential_path", "e")]),
            ("azblob", &[("endpoint", "c"), ("account_key", "f")]),
            ("sftp", &[("key", "a")]),
            ("webdav", &[]),
            ("http", &[]),
            ("fs", &[]),
        ] {
            let expected = expected.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
            assert_eq!(options.of(service), expected, "{service}");
        }
    }

    #[cfg(feature = "object")]
    #[test]
    fn what_is_handed_on_is_known_there() {
        fn is_known<C: Configurator + PartialEq>(name: &str) -> bool {
            // Without a container there is no Azure.
            let of = |name: &str| {
                C::from_iter([name, "container"].map(|name| (name.to_owned(), "true".to_owned())))
            };
            of(name).unwrap() != of("no option").unwrap()
        }
        for Known { service, options, .. } in &KNOWN {
            let is_known = match *service {
                "gcs" => is_known::<GcsConfig>,
                "azblob" => is_known::<AzblobConfig>,
                "webdav" => is_known::<WebdavConfig>,
                "sftp" => is_known::<SftpConfig>,
                "webhdfs" => is_known::<WebhdfsConfig>,
                _ => continue,
            };
            for names in options.iter().filter(|names| names[0] != "connection_string") {
                assert!(is_known(names[0]), "{service} {}", names[0]);
            }
        }
    }
}
