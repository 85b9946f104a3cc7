package org.refdb.gerrit.global;

import com.google.gerrit.server.config.SitePaths;
import java.nio.file.Path;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.ObjectId;

/** A process in which the lib module of Gerrit has opened native mode. It sets a ref, and runs until it is ended. */
final class ProgramChild {
  private ProgramChild() {}

  /**
   * The words: address of etcd, prefix, folder of the site, folder of the repository, ref, id, and {@code true} if it
   * is a server.
   */
  public static void main(String[] words) throws Exception {
    Config config = new Config();
    config.setString("refdb", "global", "etcd", words[0]);
    config.setString("refdb", "global", "prefix", words[1]);
    NativeMode mode = new NativeMode(config, new SitePaths(Path.of(words[2])), Boolean.parseBoolean(words[6]));
    NativeNode node = new NativeNode(Path.of(words[3]), mode);
    System.out.println(node.set(words[4], ObjectId.fromString(words[5])));
    Thread.sleep(Long.MAX_VALUE);
  }
}
