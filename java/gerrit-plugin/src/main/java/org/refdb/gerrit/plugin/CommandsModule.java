package org.refdb.gerrit.plugin;

import com.google.gerrit.extensions.annotations.PluginName;
import com.google.gerrit.sshd.BaseCommand;
import com.google.gerrit.sshd.CommandName;
import com.google.gerrit.sshd.Commands;
import com.google.gerrit.sshd.DispatchCommandProvider;
import com.google.gerrit.sshd.PluginCommandModule;
import com.google.inject.Inject;
import java.util.List;
import org.refdb.gerrit.plugin.cache.CacheCommands;
import org.refdb.gerrit.refs.RefdbAdmin;

/** The SSH commands: {@code ssh HOST refdb COMMAND}, for caches {@code ssh HOST refdb cache COMMAND}. */
public final class CommandsModule extends PluginCommandModule {
  /** The commands that need refdb's refs. */
  static final List<Class<? extends BaseCommand>> FOR_REFS =
      List.of(
          ShowStat.Command.class,
          VerifyRefs.Command.class,
          FlushRefs.Command.class,
          WarmRefs.Command.class,
          ShadowMode.Command.class,
          DeleteBrokenRef.Command.class);

  private final CommandName caches;

  /** Null if refdb has the caches only. */
  @Inject(optional = true)
  private RefdbAdmin refs;

  @Inject
  CommandsModule(@PluginName String plugin) {
    super(plugin);
    caches = Commands.named(Commands.named(plugin), "cache");
  }

  @Override
  protected void configureCommands() {
    command(ShowStatus.Command.class);
    if (refs != null) {
      FOR_REFS.forEach(this::command);
    }
    command("cache").toProvider(new DispatchCommandProvider(caches));
    CacheCommands.ALL.forEach(type -> command(caches, type));
  }
}
