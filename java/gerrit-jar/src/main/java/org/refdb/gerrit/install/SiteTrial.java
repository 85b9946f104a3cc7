package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Tries on a site what its Gerrit will do with refdb, as a given user: the one that runs Gerrit, where possible. */
final class SiteTrial {
  private final GerritUser user;
  private final AsGerrit asGerrit;
  private final Path nativeFolder;

  SiteTrial(Site site, ConfigFile config, GerritUser user) {
    this.user = user;
    this.asGerrit = new AsGerrit(site, config, user);
    this.nativeFolder = site.nativeFolder(config);
  }

  /** Returns why refdb cannot be tried as the given user; empty if it can. */
  Optional<String> obstacle() throws IOException {
    return asGerrit.obstacle();
  }

  /** Loads the native library, and checks that files can be read. Returns what fails; empty if nothing does. */
  Optional<String> run(List<Path> files) throws IOException, InstallException {
    List<String> arguments = new ArrayList<>();
    arguments.add(nativeFolder.toString());
    files.forEach(file -> arguments.add(file.toString()));
    AsGerrit.Said said = asGerrit.run(Trial.class, arguments);
    return said.status() == 0
        ? Optional.empty()
        : Optional.of("as user " + user.name() + " (" + user.why() + "), refdb does not work: " + said.text());
  }
}
