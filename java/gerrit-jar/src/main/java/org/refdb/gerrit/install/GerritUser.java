package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.UserPrincipalNotFoundException;
import java.util.List;

/**
 * The user that Gerrit runs as.
 *
 * @param name of the user, or number of one that has none
 * @param why it is this one
 * @param isSelf whether it is the one that runs this
 */
record GerritUser(String name, String why, boolean isSelf) {
  /** {@code container.user}; where that is not set, for root the site's owner, for others themselves. */
  static GerritUser of(Site site, ConfigFile config) throws InstallException, IOException {
    String self = System.getProperty("user.name");
    List<String> named = config.values("container", "user");
    if (!named.isEmpty()) {
      String name = named.getLast();
      try {
        FileSystems.getDefault().getUserPrincipalLookupService().lookupPrincipalByName(name);
      } catch (UserPrincipalNotFoundException e) {
        throw new InstallException("container.user in gerrit.config is " + name + ", but there is no such user", e);
      }
      return new GerritUser(name, "container.user", name.equals(self));
    }
    if (isRoot()) {
      String owner = Files.getOwner(site.folder()).getName();
      return new GerritUser(owner, "the owner of " + site.folder() + ", since container.user is not set", owner.equals(self));
    }
    return self();
  }

  /** The one that runs this. */
  static GerritUser self() {
    return new GerritUser(System.getProperty("user.name"), "the one that runs this", true);
  }

  /** Whether this process may become another user. */
  static boolean isRoot() throws IOException {
    return Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0);
  }
}
