//! The token that one server is shown.

use reqwest::header::HeaderValue;
use url::{Origin, Url};

use crate::StorageOptions;

/// What is sent along to one server, and to no other.
#[derive(Debug)]
pub(crate) struct Token {
    origin: Origin,
    /// Never shown.
    field: HeaderValue,
}

impl Token {
    /// As the options say, if they say anything.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn of(options: &StorageOptions) -> Result<Option<Self>, String> {
        let mut options = options.of("http");
        let (origin, token) = match (options.remove("http_origin"), options.remove("http_token")) {
            (Some(origin), Some(token)) => (origin, token),
            (None, None) => return Ok(None),
            (Some(_), None) => return Err("http_origin is given without http_token".to_owned()),
            (None, Some(_)) => return Err("http_token is given without http_origin".to_owned()),
        };
        // It may hold a password, and is not repeated.
        let wrong = |why| format!("http_origin {why}: wanted is https://host");
        let url = Url::parse(&origin).map_err(|_| wrong("is no server"))?;
        if !matches!(url.scheme(), "http" | "https") || url.path() != "/" {
            return Err(wrong("is no server"));
        }
        if names_a_user(&url) {
            return Err(wrong("names a user"));
        }
        let field = HeaderValue::try_from(format!("Bearer {token}"));
        let mut field = field.map_err(|_| "http_token holds what no header can".to_owned())?;
        field.set_sensitive(true);
        Ok(Some(Self { origin: url.origin(), field }))
    }

    /// What is sent along with a request for this URL, if it is of that server and says itself nothing
    /// of who asks.
    pub(crate) fn field(&self, url: &Url) -> Option<&HeaderValue> {
        let is_own = url.origin() == self.origin;
        (is_own && !names_a_user(url)).then_some(&self.field)
    }
}

fn names_a_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(options: &[(&str, &str)]) -> Result<Option<Token>, String> {
        Token::of(&StorageOptions::new(options.iter().copied()).unwrap())
    }

    #[test]
    fn a_token_is_for_its_own_server_alone() {
        let options = [("http_origin", "https://host"), ("http_token", "secret")];
        let token = tried(&options).unwrap().unwrap();
        for (url, is_shown) in [
            ("https://host/a", true),
            ("https://HOST:443/b?c", true),
            ("http://host/a", false),
            ("https://host:8443/a", false),
            ("https://host.example/a", false),
            ("https://me:password@host/a", false),
        ] {
            let field = token.field(&Url::parse(url).unwrap());
            assert_eq!(field.is_some_and(|field| field == "Bearer secret"), is_shown, "{url}");
        }
        assert!(!format!("{token:?}").contains("secret"));
    }

    #[test]
    fn a_token_without_a_server_is_refused() {
        let (origin, token) = (("http_origin", "https://host"), ("http_token", "secret"));
        assert!(tried(&[("token", "of Google")]).unwrap().is_none());
        for (options, reason) in [
            (&[token][..], "http_token is given without http_origin"),
            (&[origin], "http_origin is given without http_token"),
            (
                &[("http_origin", "me:password@host"), token],
                "http_origin is no server: wanted is https://host",
            ),
            (
                &[("http_origin", "https://me:password@host"), token],
                "http_origin names a user: wanted is https://host",
            ),
            (&[origin, ("http_token", "a\nb")], "http_token holds what no header can"),
        ] {
            assert_eq!(tried(options).unwrap_err(), reason);
        }
    }
}
