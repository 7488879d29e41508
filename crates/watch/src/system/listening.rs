//! Which file systems are listened to, and which cannot be.

use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::{Costs, Mounts};

use super::System;
use super::apart::Apart;
use super::fanotify::{self, Group, Telling, What};
use super::opens::{self, Ground};
use super::places::{self, Place, chosen};

impl System {
    /// Where the file systems are mounted that are listened to, or are going to be when they answer.
    pub fn watched(&self) -> impl Iterator<Item = &Path> {
        let hears = |point: &&Path| self.apart.get(*point).is_none_or(|it| it.failure().is_none());
        self.watched.iter().map(PathBuf::as_path).filter(hears)
    }

    /// Where the file systems are mounted that should be listened to and are not, and why.
    pub fn unheard(&self) -> impl Iterator<Item = (&Path, String)> {
        let refused = self.unheard.iter().map(|(path, error)| (&**path, error.to_string()));
        let apart = self.apart.iter().filter_map(|(path, apart)| {
            let why = apart.failure().map(ToString::to_string);
            let why = why.or_else(|| (!apart.listens()).then(|| "it has not answered yet".into()));
            Some((&**path, why?))
        });
        refused.chain(apart)
    }

    /// Chooses the file systems anew that are worth it, by what their devices take; whether these are others.
    /// If so, what is opened in this moment is not told.
    pub fn choose_anew(&mut self, costs: Arc<Costs>) -> bool {
        self.costs = costs;
        if !self.scope.on.is_empty() {
            return false;
        }
        let mounts = Mounts::read().unwrap_or_default();
        let places =
            places::places(&self.scope, &self.points, &self.chosen, (&mounts, &self.costs));
        if chosen(&places).eq(&self.chosen) {
            return false;
        }
        for group in std::iter::once(&self.named).chain(&self.described) {
            group.unmark_all();
        }
        self.listen_to_places();
        true
    }

    /// Listens to what of the scope is mounted now.
    pub(super) fn listen_to_places(&mut self) {
        let mounts = Arc::new(Mounts::read().unwrap_or_default());
        places::move_on(&mut self.points, &self.scope, &mounts);
        let mut places =
            places::places(&self.scope, &self.points, &self.chosen, (&mounts, &self.costs));
        self.resolver.mounts = mounts;
        self.here.clear();
        self.watched.clear();
        self.unheard.clear();
        self.chosen = chosen(&places).cloned().collect();
        // What is in the queue of one that has a copy would be taken to have happened on the copy.
        let known: HashSet<_> =
            self.resolver.grounds.drain().map(|(_, ground)| ground.device).collect();
        places.sort_by_key(|place| !known.contains(&place.ground.device));
        // Another mount at the same point is another place.
        self.apart.retain(|_, apart| {
            apart.failure().is_none() && places.iter().any(|place| place.ground == *apart.ground())
        });
        for place in places {
            let (point, what) = (place.ground.point.clone(), place.ground.what);
            match self.listen_to(place) {
                Ok(()) if what == What::Opens => self.watched.push(point),
                Ok(()) => {}
                // Programs there are known as long as they live.
                Err(_) if what == What::Programs => {}
                Err(source) => self.unheard.push((point, source)),
            }
        }
    }

    fn listen_to(&mut self, place: Place) -> io::Result<()> {
        let Place { ground, may_stall } = place;
        if may_stall {
            if let Entry::Vacant(entry) = self.apart.entry(ground.point.clone()) {
                entry.insert(Apart::new(ground, self.resolver.clone())?);
            }
            return Ok(());
        }
        opens::ensure_reached(&ground)?;
        match self.listen_by_name(&ground) {
            Err(_) if ground.what == What::Opens => {
                if self.described.is_none() {
                    self.described = Some(Group::new(Telling::Descriptor)?);
                }
                let described = self.described.as_ref().expect("just made");
                described.mark(&ground.point, ground.what)
            }
            marked => marked,
        }
    }

    fn listen_by_name(&mut self, ground: &Ground) -> io::Result<()> {
        let id = fanotify::file_system_id(&ground.point)?;
        if self.resolver.grounds.contains_key(&id) {
            // What happens on a copy of a file system would be taken to happen on the other.
            self.named.unmark(&ground.point);
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.named.mark(&ground.point, ground.what)?;
        self.described.iter().for_each(|described| described.unmark(&ground.point));
        self.resolver.grounds.insert(id, ground.clone());
        Ok(())
    }
}
