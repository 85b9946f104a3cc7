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
 * @param name name of the user, or its number if it has no name
 * @param why how it was determined, for messages
 * @param isSelf whether it is the user of this process
 */
record GerritUser(String name, String why, boolean isSelf) {
  /**
   * Determines the user: {@code container.user} if that is set; else the owner of the site if the caller is root, and
   * the caller otherwise.
   */
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
      return new GerritUser(
          owner,
          "the owner of " + site.folder() + ", since container.user is not set",
          owner.equals(self));
    }
    return self();
  }

  /** The user of this process. */
  static GerritUser self() {
    return new GerritUser(System.getProperty("user.name"), "the one that runs this", true);
  }

  /** Returns whether this process may become another user. */
  static boolean isRoot() throws IOException {
    return Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0);
  }
}
